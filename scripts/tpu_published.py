"""Holds the compiler's time against steps that others measured on real TPUs.

    make tpu-published

MaxText's authors publish how fast it trains which model on which slice. Here the
course's own update of the same model, batch and slice is compiled, and what its
compiler reckons stands beside what was measured, in data/results/tpu_published.csv. The
two programs differ: MaxText's attention is a kernel of Pallas, and other activations
are kept. Both train all weights in float32 and compute in bfloat16.
"""

import dataclasses
import math
import sys
from importlib import util
from typing import NamedTuple

from helpers.model.known import KNOWN
from helpers.tpu import GENERATIONS, compiler, roofline, topology
from scripts import tables, tpu_cases, tpu_check

TABLE = tpu_check.ROOT / "data" / "results" / "tpu_published.csv"
LARGE = KNOWN[tpu_cases.LARGE]
SHAPES = {
    "Llama-3.1-8B": dataclasses.replace(
        LARGE, width=4096, layers=32, heads=32, ff=14_336
    ),
    "Llama-2-70B": dataclasses.replace(
        LARGE, vocab_size=32_000, rope_theta=1e4, stretch=None
    ),
}
COMPILED = (  # columns that the compiler fills
    *("modelled_ms", "product_ms", "kernels_ms", "roofline_ms", "links_ms"),
    *("unpriced_calls", "modelled_percent", "hbm_percent", "verdict", "versions"),
)
RECIPES = "https://github.com/AI-Hypercomputer/tpu-recipes/blob/main/training"
MAXTEXT = "https://github.com/AI-Hypercomputer/maxtext/blob/main"


class Published(NamedTuple):
    """One measurement of others: what was trained where, and how fast.

    Attributes:
      model: a name in SHAPES. topology: the slice, as `compiler.devices` has it.
      length, rows: tokens of a row, and rows on each chip.
      share: of the chips' peak, as published; attention is counted as if every token
        saw all others.
      source: the page.
      pieces: in how many parts our update takes the batch, so that it fits.
      cut: how many chips share each matrix of ours (`tpu_cases.LargeCase`).
    """

    model: str
    topology: str
    length: int
    rows: int
    share: float
    source: str
    pieces: int
    cut: int


PUBLISHED = (
    Published(
        "Llama-3.1-8B",
        "v6e:2x4",
        8192,
        3,
        413.433 / 918,  # TFLOP/s a chip in the log that the page shows, of its peak
        f"{RECIPES}/trillium/Llama3.1-8B-MaxText/v6e-8/README.md",
        pieces=3,
        cut=1,
    ),
    Published(
        "Llama-2-70B",
        "v5p:4x4x4",
        4096,
        4,
        0.65,
        f"{MAXTEXT}/getting_started/Run_Llama2.md",
        pieces=4,
        cut=4,
    ),
    Published(
        "Llama-2-70B",
        "v5e:16x16",
        2048,
        2,
        0.57,
        f"{MAXTEXT}/getting_started/Run_Llama2.md",
        pieces=8,
        cut=4,
    ),
)


@dataclasses.dataclass(frozen=True)
class Training(tpu_cases.Case):
    """All weights of a published shape, trained on packed rows."""

    cut: int = 1

    @property
    def config(self):
        """The model's shape."""
        return SHAPES[self.model]


def chips(one: Published) -> int:
    """How many the slice has."""
    return math.prod(topology.named(one.topology).shape)


def case(one: Published) -> Training:
    """Our program for a measurement of others."""
    half = one.length // 2  # a Case's rows are prompt and answer
    return Training(
        one.model,
        "sft",
        one.topology,
        rank=0,
        prompts=one.rows * chips(one),
        prompt_tokens=half,
        completion_tokens=one.length - half,
        pieces=one.pieces,
        cut=one.cut,
    )


def by_our_count(one: Published) -> float:
    """The published share, had attention been counted as what causal tokens see."""
    forward = roofline.forward_flops(
        SHAPES[one.model], [roofline.Texts(1, 0, one.length)], one.length
    )
    weights = forward.base + forward.head
    all_pairs = forward.attention * one.length**2 / roofline.seen(0, one.length)
    return one.share * (weights + forward.attention) / (weights + all_pairs)


def published(one: Published) -> dict:
    """The row of a measurement, without the compiler."""
    chip = GENERATIONS[one.topology.partition(":")[0]]
    share = by_our_count(one)
    at_peak = case(one).flops() / chips(one) / (chip.tflops * 1e9)
    return {
        "model": one.model,
        "topology": one.topology,
        "chips": chips(one),
        "length": one.length,
        "rows": one.rows,
        "pieces": one.pieces,
        "cut": one.cut,
        "published_percent": round(100 * one.share, 1),
        "published_percent_causal": round(100 * share, 1),
        "published_ms": round(at_peak / share),
    }


def compiled(one: Published) -> dict:
    """What the compiler says of our program; "" where it does not fit."""
    ours = case(one)
    function, arguments, _ = ours.build()
    lowered = compiler.lower(function, *arguments)
    report = compiler.report(one.topology, chips(one), lowered, ours.flops())
    said = {
        "modelled_ms": round(report.modelled_ms),
        "product_ms": round(report.by_kind.get("product", 0.0)),
        "kernels_ms": round(report.kernels_ms),
        "roofline_ms": round(report.roofline_ms),
        "links_ms": round(report.links_ms),
        "unpriced_calls": report.unpriced_calls,
        "modelled_percent": round(report.modelled_peak_percent, 1),
    }
    if report.verdict:
        said = dict.fromkeys(said, "")
    else:
        said["hbm_percent"] = round(report.hbm_percent, 1)
    verdict = report.verdict.replace("\n", " ")
    return said | {"verdict": verdict, "versions": tpu_check.versions()}


def main(chosen: list[str]) -> int:
    """Compiles for the named slices, all by default; other rows are kept."""
    if not util.find_spec("libtpu"):
        return tpu_check.with_compiler("scripts.tpu_published", chosen)
    rows = {row["topology"]: row for row in tables.read(TABLE)}
    for one in PUBLISHED:
        before = rows.get(one.topology, {})
        same = all(before.get(x) == str(getattr(one, x)) for x in ("pieces", "cut"))
        kept = {name: before.get(name, "") if same else "" for name in COMPILED}
        rows[one.topology] = published(one) | kept | {"source": one.source}
    for one in PUBLISHED:
        if not chosen or one.topology in chosen:
            rows[one.topology] |= compiled(one)
            print(rows[one.topology], flush=True)
        tables.write(TABLE, list(rows.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
