"""README's comparison with TRL on a real model: what `make real-peers` measured.

Without data/results/real_peers.csv there is nothing to show, and nothing is shown.
"""

import csv
import itertools
import statistics

from publish import ROOT

from helpers.plots import plotting

TABLE = ROOT / "data" / "results" / "real_peers.csv"
CURVES = ROOT / "data" / "results" / "real_peers_curves.csv"
PICTURE = ROOT / "data" / "results" / "real_peers.png"
NAMES = {"ours": "this course", "trl": "TRL"}
STAGES = {"sft": "SFT", "grpo": "GRPO"}
CORES = {1.0: "one core", 2.0: "two cores"}
SMOOTH = 5
FASTER = 1.5  # times as fast: what was aimed at


def rows(path) -> list[dict]:
    """The rows of a table, figures as numbers; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        found = list(csv.DictReader(file))
    words = "library", "numbers", "stage", "versions"
    return [
        {name: x if name in words else float(x) for name, x in row.items()}
        for row in found
    ]


def curves(points: list[dict]) -> dict[str, list[dict]]:
    """GRPO's share of right answers by step, the mean over the seeds, by library."""
    points = [point for point in points if point["numbers"] == "float32"]
    steps = sorted({point["step"] for point in points})
    return {
        name: [
            {
                "step": step,
                "right": statistics.mean(
                    100 * p["right"]
                    for p in points
                    if (p["library"], p["step"]) == (library, step)
                ),
            }
            for step in steps
        ]
        for library, name in NAMES.items()
    }


def picture(points: list[dict]):
    """Both learning curves; a Matplotlib figure."""
    return plotting.curves(
        curves(points),
        "right",
        title="One recipe, two libraries: GRPO of a real model",
        ylabel="sampled answers right, %",
        xlabel="step of GRPO",
        smooth=SMOOTH,
    )


def alt(points: list[dict]) -> str:
    """The picture in words."""
    parts = []
    for name, table in curves(points).items():
        first, last = (
            statistics.mean(row["right"] for row in some)
            for some in (table[:SMOOTH], table[-SMOOTH:])
        )
        parts.append(f"{name} from {first:.0f}% to {last:.0f}%")
    seeds = {row["seed"] for row in points}
    of = f"mean of {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return (
        f"Share of sampled answers right by step of GRPO, {of}, first and last "
        f"{SMOOTH} steps: {'; '.join(parts)}."
    )


def table(found: list[dict]) -> str:
    """Scores, seconds and memory of both libraries, means of the seeds."""
    lines = [
        "| | products | library | seeds | right | cores | a step, seconds | CPU-s | "
        "memory |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for stage, numbers in itertools.product(STAGES, ("float32", "bfloat16")):
        for library, name in NAMES.items():
            key = stage, numbers, library
            own = [r for r in found if (r["stage"], r["numbers"], r["library"]) == key]
            if not own:
                continue
            ends = ("greedy", "greedy") if len(own) > 1 else ("low", "high")
            right, low, high = (
                [100 * row[name] for row in own] for name in ("greedy", *ends)
            )
            wall, cpu, peak = (
                statistics.mean(row[figure] for row in own)
                for figure in ("wall_s_step", "cpu_s_step", "peak_mb")
            )
            cells = [
                f"{len(own)}",
                f"{statistics.mean(right):.1f}% ({min(low):.1f} to {max(high):.1f})",
                " or ".join(f"{n:.0f}" for n in sorted({row["cores"] for row in own})),
                f"{wall:.0f}",
                f"{cpu:.0f}",
                f"{peak / 1024:.1f} GB",
            ]
            said = [STAGES[stage], numbers, name, *cells]
            lines.append(f"| {' | '.join(said)} |")
    return "\n".join(lines)


def times(found: list[dict], stage: str) -> float:
    """How many times the processor time TRL takes for a step, means of the seeds.

    Of the steps in float32: not of the clock, for they ran on one core or on two.
    """
    ours, theirs = (
        statistics.mean(
            row["cpu_s_step"]
            for row in found
            if (row["stage"], row["numbers"]) == (stage, "float32")
            and row["library"] == library
        )
        for library in NAMES
    )
    return theirs / ours


def missed(found: list[dict]) -> str:
    """Which stages are that much faster than TRL's, and which are not."""
    fast = [STAGES[stage] for stage in STAGES if times(found, stage) >= FASTER]
    slow = [STAGES[stage] for stage in STAGES if times(found, stage) < FASTER]
    said = [f"{' and '.join(fast)} reaches it"] if fast else []
    if slow:
        said.append(
            f"{' and '.join(slow)} does not, where both spend their time in the same "
            "matrix products"
        )
    return ", ".join(said)


def alike(found: list[dict]) -> str:
    """A sentence on stages of several seeds where both end with one score in each."""
    said = []
    for stage in STAGES:
        own = [r for r in found if (r["stage"], r["numbers"]) == (stage, "float32")]
        scores = {(row["library"], row["seed"]): row["greedy"] for row in own}
        seeds = {seed for _, seed in scores}
        pairs = [[scores.get((name, seed)) for name in NAMES] for seed in seeds]
        if len(seeds) > 1 and all(one == other for one, other in pairs):
            said.append(
                f" {STAGES[stage]} ends with the same score in both, seed by seed."
            )
    return "".join(said)


def section() -> str:
    """What README says of it; nothing while nothing was measured."""
    found, points = rows(TABLE), rows(CURVES)
    if not (found and points):
        return ""
    n = int(found[0]["n"])
    cores = " or ".join(sorted({CORES[row["cores"]] for row in found}))
    said = (
        "A real model beside TRL: SmolLM2-135M-Instruct with LoRA on "
        f"{cores}, one-step problems, the same rows, first adapters and learning rates "
        "(`make real-peers`). In float32 loss and gradient on the same answers "
        f"agree to 0.0001. {n} held-out problems, graded by the same evaluation; one "
        "seed has its 95% interval, several have their mean, and the lowest to the "
        f"highest.{alike(found)} "
        f"A step of GRPO takes TRL {times(found, 'grpo'):.1f} times the processor "
        f"time, one of SFT {times(found, 'sft'):.1f} times. {FASTER} times was the "
        f"aim: {missed(found)}. GRPO was measured before its update was cut as in the "
        "preset of today, which takes it a fifth less."
    )
    shown = f"![{alt(points)}](data/results/{PICTURE.name})"
    return "\n\n".join([said, table(found), shown])


def draw() -> None:
    """Draws the picture anew, if there are data."""
    if points := rows(CURVES):
        PICTURE.write_bytes(plotting.png(picture(points)))
