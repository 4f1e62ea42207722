"""README's picture of the walk, and what it says of the seeds of learning.csv."""

import csv
import io
import json

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from publish import ROOT

from helpers.course.syllabus import STAGES
from helpers.plots import plotting

LEARNING = ROOT / "data" / "results" / "learning.csv"
# What the names of the stages mean, for who has not read the notebooks.
EXPLAINED = {
    "base": "pretrained, and mostly guesses (03)",
    "sft": "imitates worked solutions (04)",
    "r1_zero": "GRPO without SFT before it, in less than half of the steps (07)",
    "grpo": "learns from whether its own answers are right (07)",
    "gspo": "the same, with one probability ratio for a whole answer (08)",
    "student_start": "another model, a third of the size: one pass over 1,000 worked "
    "solutions (11)",
    "student_labels": "more passes over those 1,000",
    "student_offline": "imitates the teacher's probabilities on those 1,000 texts",
    "student_plenty": "new worked solutions in every step, which you may not have",
    "student": "answers new questions, and the teacher corrects every token; no labels",
    "food_sft": "imitates conversations with the tool (09)",
    "food_grpo": "learns from whether the conversation ended right (10)",
    "food_blank": "a control: the same model shown black pictures can only guess",
}
# The picture: stages side by side, and what stands below each.
PANELS = {
    "word problems": {"base": "base", "sft": "SFT", "grpo": "GRPO"},
    "its student": {"student_start": "start", "student": "distilled"},
    "pictures of food": {"food_sft": "SFT", "food_grpo": "GRPO"},
}


def measured() -> dict[str, list[dict]]:
    """Rows of data/results/learning.csv by stage, figures as fractions of 1.

    Raises:
      ValueError: a stage of the walk is missing there.
    """
    with open(LEARNING, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row |= {name: float(row[name]) for name in ("greedy", "pass1", "pass8")}
    found = {stage: [r for r in rows if r["stage"] == stage] for stage in STAGES}
    missing = [stage for stage, own in found.items() if not own]
    if missing:
        raise ValueError(f"{LEARNING.name} lacks {missing}. Run `make seeds`.")
    return found


def span(rows: list[dict], name: str = "greedy") -> tuple[float, float, float]:
    """(mean, lowest, highest) of a figure over the seeds, in percent."""
    values = [100 * row[name] for row in rows]
    return sum(values) / len(values), min(values), max(values)


def said(rows: list[dict], name: str = "greedy") -> str:
    """Such as "88.9% (86.8 to 91.2)"."""
    mean, low, high = span(rows, name)
    return f"{mean:.1f}% ({low:.1f} to {high:.1f})"


def picture(found: dict[str, list[dict]]):
    """The walk in seven bars that are read on a telephone, too; a Matplotlib figure."""
    ends = [f"{span(found[stage])[0]:.0f}%" for stage in ("base", "grpo")]
    title = f"From {ends[0]} to {ends[1]} right, on two CPU cores"
    fig = plotting.figure(title, x="", y="", width=5.0, height=3.2)[0]
    (axes,) = fig.axes
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold")
    places, names, x = [], [], 0.0
    for panel, stages in PANELS.items():
        axes.text(x - 0.42, 117, _words(panel, found, stages), fontsize=11, va="center")
        for stage, name in stages.items():
            first = stage == next(iter(stages))
            mean, low, high = span(found[stage])
            colour = plotting.GREY if first else plotting.BLUE
            axes.bar(x, mean, width=0.78, color=colour, alpha=0.35 if first else 0.9)
            axes.plot([x, x], [low, high], color="black", linewidth=1.6)
            axes.annotate(
                f"{mean:.0f}",
                (x, high),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=14,
                fontweight="bold",
            )
            places, names, x = [*places, x], [*names, name], x + 1.0
        x += 0.55
    axes.set_xticks(places, names, fontsize=11.5)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(0, 125)
    axes.set_xlim(-0.5, places[-1] + 0.6)
    return fig


def _words(panel, found, stages):
    size = int(next(iter(found[next(iter(stages))]))["params"]) / 1e6
    return f"{panel}\n{size:.2f} M weights"


def alt(found: dict[str, list[dict]]) -> str:
    """The picture in words."""
    parts = []
    for panel, stages in PANELS.items():
        bars = [f"{name} {span(found[s])[0]:.0f}%" for s, name in stages.items()]
        parts.append(f"{panel}: {', '.join(bars)}")
    return f"Share of held-out questions answered right. {'; '.join(parts)}."


def png(found: dict[str, list[dict]]) -> bytes:
    """The picture as a file, which also holds what it shows in words."""
    return described(picture(found), alt(found))


def described(fig, text: str) -> bytes:
    """A figure as a PNG file that holds its alternative text."""
    words = PngInfo()
    words.add_text("Description", text)
    drawn = io.BytesIO(plotting.png(fig))
    file = io.BytesIO()
    Image.open(drawn).convert("RGB").save(file, "PNG", pnginfo=words, optimize=True)
    return file.getvalue()


def image(found: dict[str, list[dict]]) -> str:
    """The picture with its alternative text, and the sentence below it."""
    return (
        f"![{alt(found)}](data/results/walk.png)\n\n"
        f"*Held-out questions answered right, %: mean of {_seeds(found)}, the line "
        "from the lowest to the highest.*"
    )


def table(found: dict[str, list[dict]]) -> str:
    """All stages, what each means, and their figures over the seeds."""
    lines = [
        "| stage | what it is | parameters | greedy | sampled | any of 8 samples |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for stage, rows in found.items():
        cells = [STAGES[stage], EXPLAINED[stage], f"{int(rows[0]['params']):,}"]
        cells += [said(rows, name) for name in ("greedy", "pass1", "pass8")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", order(found)])


def order(found: dict[str, list[dict]]) -> str:
    """What may be said of the order of GRPO and GSPO."""
    (_, *ours), (_, *theirs) = span(found["grpo"]), span(found["gspo"])
    apart = ours[0] > theirs[1] or theirs[0] > ours[1]
    verdict = "do not overlap" if apart else "overlap: no ranking"
    (here,) = (row["greedy"] for row in found["grpo"] if row["seed"] == "0")
    return (
        f"Means of {_seeds(found)}, and from the lowest to the highest. Another seed "
        "moves a figure by a few points, and so does another machine, which rounds "
        f"otherwise: seed 0 of GRPO ended at {100 * here:.1f}% where the seeds were "
        f"walked, and at {100 * walked('grpo'):.1f}% where the notebooks were. So read "
        f"no order into differences of that size. The ranges of GRPO, "
        f"{said(found['grpo'])}, and of GSPO, {said(found['gspo'])}, {verdict}."
    )


def walked(stage: str) -> float:
    """The share that a stage answers in the run that the notebooks show."""
    rows = json.loads((LEARNING.with_name("walk.json")).read_text())
    return next(row["greedy"] for row in rows if row["stage"] == stage)


def _seeds(found):
    number = len({row["seed"] for row in found["grpo"]})
    return {1: "one seed", 2: "two seeds", 3: "three seeds"}.get(
        number, f"{number} seeds"
    )
