"""The tables that a run leaves, as tests compare them."""

import json


def is_timing(name):
    """Whether a metric measures time, and so differs between two equal runs."""
    return name.endswith(("seconds", "per_second"))


def without_times(table):
    """Rows without what the clock decides."""
    return [{k: x for k, x in row.items() if not is_timing(k)} for row in table]


def read_table(folder, name="metrics.jsonl"):
    """The rows of a log without what the clock decides."""
    lines = (folder / name).read_text().splitlines()
    return without_times(map(json.loads, lines))
