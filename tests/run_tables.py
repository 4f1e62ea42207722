"""The tables that a run leaves, as tests compare them."""

import json

from helpers.training.logging import is_timing


def read_table(folder, name="metrics.jsonl"):
    """The rows of a log without what the clock decides."""
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [{k: x for k, x in row.items() if not is_timing(k)} for row in rows]
