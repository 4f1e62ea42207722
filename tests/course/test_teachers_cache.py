"""What `docs/serving.md` counts of Gemma 4's teacher: its cache and its bandwidth."""

import csv

from helpers import runtime
from helpers.model.known import KNOWN
from helpers.tpu.generations import GENERATIONS

CONFIG = KNOWN["google/gemma-4-31B-it"]
CHIPS, AT_ONCE, TOKENS = 8, 64, 4096


def cache(tokens):
    """Bytes of keys and values in bfloat16; of local layers, those of their window.

    A head that fewer chips would have than there are is kept on several, as engines do.
    """
    own, total = CONFIG.gemma4, 0
    for kind in own.kinds:
        full = kind == "full"
        heads = max(own.full_kv_heads if full else CONFIG.kv_heads, CHIPS)
        width = own.full_head_dim if full else CONFIG.head_dim
        total += (
            2 * 2 * heads * width * (tokens if full else min(tokens, CONFIG.window))
        )
    return total


def line(topology, numbers):
    """The table's row of a slice."""
    with open(runtime.ROOT / "data" / "results" / "tpu_fit.csv", newline="") as file:
        (row,) = (
            row
            for row in csv.DictReader(file)
            if row["model"] == "google/gemma-4-31B-it"
            and (row["program"], row["topology"]) == ("answers", topology)
        )
    chip = GENERATIONS[topology[:3]]
    weights = float(row["arguments_gb"]) * CHIPS
    left, each = chip.usable_gb * CHIPS - weights, cache(TOKENS) / 2**30
    bandwidth = chip.gbytes * 1e9 * CHIPS

    def tokens_per_second(rows):
        return rows * bandwidth / (weights * 2**30 + rows * cache(TOKENS))

    return (
        f"| {topology}, {numbers} | {weights:.0f} GiB | {left:.0f} GiB "
        f"| {int(left / each)} | {tokens_per_second(AT_ONCE):,.0f} "
        f"| {tokens_per_second(1):.0f} |"
    )


def test_the_page_has_what_these_formulas_give():
    page = (runtime.ROOT / "docs" / "serving.md").read_text()
    assert line("v6e:2x4", "bfloat16") in page
    assert line("v5e-8", "int8") in page
    assert f"{cache(1) / 2**20:.2f} MiB" in page
    assert f"{cache(TOKENS) / 2**30:.2f}\nGiB" in page
