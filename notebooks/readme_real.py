"""README's picture of a real model's stages, from data/results/real.csv."""

import csv

from publish import ROOT
from readme_learning import described

from helpers.evaluation.intervals import compare
from helpers.plots import plotting

REAL = ROOT / "data" / "results" / "real.csv"
RIGHT = REAL.with_name("real_right.csv")
TASKS = {"one_step": "one step", "two_step": "two steps", "three_step": "three steps"}
STAGES = {
    "base_asked_well": ("as it comes, asked well", plotting.GREY),
    "sft": ("SFT", plotting.ORANGE),
    "sft_control": ("SFT for as long as both", plotting.GREEN),
    "grpo": ("SFT, then GRPO", plotting.BLUE),
    "grpo_one_step": ("SFT, then GRPO on one step", plotting.PINK),
    "tool_sft": ("SFT, lent a calculator", plotting.BLACK),
}
# What each stage began from, or beside.
SINCE = {"sft": "base_asked_well", "grpo": "sft", "gspo": "sft", "sft_control": "sft"}
SINCE |= {"grpo_one_step": "sft", "student": "sft"}
SINCE |= {"tool_sft": "sft", "sft_with_tool": "tool_sft"}
SINCE |= {"tool_grpo": "tool_sft", "tool_grpo_alone": "sft", "tool_student": "sft"}
SINCE |= {"gsm8k_sft": "base", "gsm8k_tool_sft": "gsm8k_sft"}
CHANGES = {  # (stage, since)
    ("sft", "base_asked_well"): "SFT, against the model as it comes, asked well",
    ("gsm8k_sft", "base"): "SFT on GSM8K itself",
    ("gsm8k_tool_sft", "gsm8k_sft"): "the same, lent a calculator",
    ("grpo", "sft"): "GRPO, after SFT",
    ("gspo", "sft"): "GSPO, after SFT",
    ("student", "sft"): "distillation of GRPO's model, after SFT",
    ("sft_control", "sft"): "SFT for as long as SFT and GRPO, against SFT",
    ("sft_control", "grpo"): "the same, against SFT and GRPO",
    ("grpo_one_step", "sft"): "GRPO on one step, after SFT",
    ("tool_sft", "sft"): "SFT's model lent a calculator, against SFT",
    ("sft_with_tool", "tool_sft"): (
        "SFT whose loss leaves the calculator's digits out, against SFT lent one"
    ),
    ("tool_grpo", "tool_sft"): "GRPO with a calculator, after SFT lent one",
    ("tool_grpo_alone", "sft"): (
        "GRPO with a calculator, asked without it, against SFT"
    ),
    ("tool_grpo_alone", "grpo"): "the same, against GRPO that never had one",
    (
        "tool_student",
        "sft",
    ): (
        "SFT on right answers written with a calculator, asked without it, against SFT"
    ),
}


def measured() -> dict[tuple[str, str], list[dict]]:
    """Rows of the table by (stage, task), figures as fractions of 1."""
    with open(REAL, newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        row |= {name: float(row[name]) for name in ("greedy", "low", "high", "lenient")}
        found.setdefault((row["stage"], row["task"]), []).append(row)
    return found


def bar(rows: list[dict]) -> tuple[float, float, float]:
    """(share, low, high) in percent: a seed's 95% interval, or the range of several."""
    values = [100 * row["greedy"] for row in rows]
    if len(rows) == 1:
        return values[0], 100 * rows[0]["low"], 100 * rows[0]["high"]
    return sum(values) / len(values), min(values), max(values)


def stages(found: dict) -> list[str]:
    """Those that are measured on every level."""
    return [stage for stage in STAGES if all((stage, task) in found for task in TASKS)]


def picture(found: dict):
    """Three groups of bars, one for each level; a Matplotlib figure."""
    first, *later = (bar(found[stage, "one_step"])[0] for stage in stages(found))
    title = f"135M parameters, one step: {first:.0f}% → {max(later):.0f}% right"
    fig, axes = plotting.figure(title, x="", y="", width=5.0, height=4.0)
    width, lines = 0.87 / len(stages(found)), -(-len(stages(found)) // 2)
    for i, task in enumerate(TASKS):
        for j, stage in enumerate(stages(found)):
            name, colour = STAGES[stage]
            share, low, high = bar(found[stage, task])
            x = i + (j - (len(stages(found)) - 1) / 2) * width
            axes.bar(x, share, width=0.93 * width, color=colour, alpha=0.85)
            axes.plot([x, x], [low, high], color="black", linewidth=1.4)
            axes.annotate(
                f"{share:.0f}",
                (x, high),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=10.6,
                fontweight="bold",
            )
            if i == 0:
                column, line = divmod(j, lines)
                axes.text(
                    0.47 * column,
                    0.99 - 0.08 * line,
                    f"■ {name}",
                    color=colour,
                    fontsize=11,
                    transform=axes.transAxes,
                    va="top",
                )
    axes.set_xticks(range(len(TASKS)), list(TASKS.values()), fontsize=11.5)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    tallest = max(bar(found[s, task])[2] for s in stages(found) for task in TASKS)
    legend = 0.08 * lines + 0.1  # of the height, and a bar's number
    axes.set_ylim(0, tallest / (1 - legend))
    return fig


def alt(found: dict) -> str:
    """The picture in words."""
    parts = []
    for task, name in TASKS.items():
        bars = [f"{STAGES[s][0]} {bar(found[s, task])[0]:.0f}%" for s in stages(found)]
        parts.append(f"{name}: {', '.join(bars)}")
    return f"Share of held-out problems answered right. {'; '.join(parts)}."


def png(found: dict) -> bytes:
    """The picture as a file, which also holds what it shows in words."""
    return described(picture(found), alt(found))


def image(found: dict) -> str:
    """The picture with its alternative text, and the sentence below it."""
    by_count: dict[int, list[str]] = {}
    for stage in stages(found):
        by_count.setdefault(len(found[stage, "one_step"]), []).append(STAGES[stage][0])
    means = "the 95% interval"
    for count, names in sorted(by_count.items(), reverse=True):
        if count > 1:
            means += f", or the range of {count} seeds ({', '.join(names)})"
    alone = [
        STAGES[stage][0]
        for stage in stages(found)
        if not stage.startswith("base") and len(found[stage, "one_step"]) == 1
    ]
    first = " / ".join(
        f"{100 * row['greedy']:.1f}"
        for task in TASKS
        for row in found.get(("sft", task), [])
        if row["seed"] == "0"
    )
    began = (
        f" Of seed 0 alone: {', '.join(alone)}; its SFT has {first}." if alone else ""
    )
    return (
        f"![{alt(found)}](data/results/real.png)\n\n"
        f"*Held-out problems answered right, %, 200 problems a level; the line is "
        f"{means}.{began}*"
    )


def table(found: dict) -> str:
    """Every row as Markdown: what is asked how, and what comes of it."""
    lines = [
        "| stage | problems | seed | n | right | lenient | pass@1, @8 of 50 "
        "| cut off |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for (stage, task), rows in sorted(found.items(), key=_place):
        share, low, high = bar(rows)
        mean = {
            name: 100 * sum(float(row[name]) for row in rows) / len(rows)
            for name in ("lenient", "pass1", "pass8", "truncated")
        }
        cells = (
            stage,
            TASKS.get(task, task),
            ", ".join(sorted(row["seed"] for row in rows)),
            rows[0]["n"],
            f"{share:.1f}% ({low:.1f} to {high:.1f})",
            f"{mean['lenient']:.1f}%",
            f"{mean['pass1']:.1f}%, {mean['pass8']:.1f}%",
            f"{mean['truncated']:.1f}%",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def changes() -> str:
    """What each stage changed, problem by problem, as Markdown; none recorded: ""."""
    if not RIGHT.exists():
        return ""
    lines = [
        "| stage | since | problems | seed | before | after | change, in points "
        "| gained | lost |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (stage, since, task, seed), pair in _pairs().items():
        if since != SINCE[stage]:
            continue
        found = compare(*pair)
        span = f"({100 * found.low:+.1f} to {100 * found.high:+.1f})"
        cells = (
            *(stage, SINCE[stage], TASKS.get(task, task), seed),
            *(f"{100 * sum(x) / len(x):.1f}%" for x in pair),
            f"{100 * found.difference:+.1f} {span}".replace("-", "−"),
            *(str(found.gained), str(found.lost)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def lifts() -> str:
    """Each stage's mean change over its seeds, where three or more have pairs."""
    found: dict[tuple[str, str, str], list] = {}
    for (stage, since, task, _), pair in _pairs().items():
        found.setdefault((stage, since, task), []).append(compare(*pair))
    lines = [
        "| what changes | problems | seeds | mean change, in points "
        "| lowest to highest | clearly up | clearly down |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for (stage, since, task), changes in sorted(found.items(), key=_place_of_change):
        if len(changes) < 3:
            continue
        points = [100 * one.difference for one in changes]
        cells = (
            *(CHANGES[stage, since], TASKS.get(task, task), str(len(points))),
            f"{sum(points) / len(points):+.1f}".replace("-", "−"),
            f"{min(points):+.1f} to {max(points):+.1f}".replace("-", "−"),
            str(sum(one.low > 0 for one in changes)),
            str(sum(one.high < 0 for one in changes)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pairs():
    """{(stage, since, task, seed): (before, after)}, problem by problem."""
    with open(RIGHT, newline="") as file:
        rows = list(csv.DictReader(file))
    right = {(r["stage"], r["task"], r["seed"]): [*map(int, r["right"])] for r in rows}
    return {
        (stage, since, task, seed): (before, after)
        for (stage, task, seed), after in right.items()
        for known, since in CHANGES
        if known == stage and (before := right.get((since, task, _seed(since, seed))))
    }


def _seed(since, seed):
    """As it comes, a model is of no seed: it has one row, beside which all are held."""
    return "0" if since.startswith("base") else seed


def _place_of_change(item):
    (stage, since, task), _ = item
    place, level = _place(((stage, task), None))
    return place, [*CHANGES].index((stage, since)), level


def _place(item):
    from scripts.real import BASE
    from scripts.real import STAGES as ORDER

    (stage, task), _ = item
    return [*BASE, *ORDER].index(stage), [*TASKS, task].index(task)
