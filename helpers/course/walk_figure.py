"""The walk as one figure: what each stage of post-training adds."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from helpers.course.syllabus import STAGES
from helpers.plots import plotting


def walk(rows: Sequence[Mapping], title: str | None = None) -> Figure:
    """The walk from the base model to the distilled student.

    Args:
      rows: as `results.rows()` has them: "stage", "greedy", "low", "high", "pass8",
        "n" and "params", figures as fractions; of several seeds the first is drawn.
      title: defaults to a sentence with the first and the last greedy figure.
    """
    first: dict[str, Mapping] = {}
    for row in rows:
        first.setdefault(row["stage"], row)
    rows = list(first.values())
    food = [row for row in rows if row["stage"].startswith("food_")]
    worlds = {"maths": [row for row in rows if row not in food], "food": food}
    rows = worlds["maths"] + food
    best = max(worlds["maths"] or rows, key=lambda row: row["greedy"])
    title = title or (
        f"From {rows[0]['greedy']:.0%} to {best['greedy']:.0%}: "
        "what each stage of post-training adds"
    )
    label, width = "test problems solved, %", 9.0 + 0.9 * len(food)
    fig, axes = plotting.figure(title, x="", y=label, width=width, height=4.2)
    # Another world, after a gap: its figures are not to be compared with those before.
    places = [i + 0.5 * (i >= len(worlds["maths"])) for i in range(len(rows))]
    for x, row in zip(places, rows, strict=True):
        _draw_stage(axes, x, row)
    names = [
        f"{STAGES.get(row['stage'], row['stage'])}\n{row['params'] / 1e6:.2f} M"
        for row in rows
    ]
    axes.set_xticks(places, [_wrap(name) for name in names], fontsize=9)
    axes.set_xlim(-0.5, places[-1] + 0.65)
    axes.set_ylim(0, 119)
    axes.set_yticks(range(0, 101, 20))
    for name, own in worlds.items():
        if own:
            n = ", ".join(sorted({str(row["n"]) for row in own}))
            x = places[rows.index(own[0])] - 0.4
            axes.text(x, 103, f"{name}, n = {n}", fontsize=9, color=plotting.GREY)
    axes.plot([], [], "o", color=plotting.BLUE, label="greedy, with 95% interval")
    axes.plot(
        [],
        [],
        "D",
        color=plotting.ORANGE,
        fillstyle="none",
        label="any of 8 samples (pass@8)",
    )
    axes.legend(loc="upper left", fontsize=9, frameon=False, ncols=2)
    return fig


def _draw_stage(axes, i, row):
    greedy, low, high = (100 * row[key] for key in ("greedy", "low", "high"))
    pass8 = 100 * row["pass8"]
    axes.bar(i, greedy, width=0.55, color=plotting.BLUE, alpha=0.14)
    axes.plot([i, i], [low, high], color=plotting.BLUE, linewidth=2.2)
    axes.plot(i, greedy, "o", color=plotting.BLUE, markersize=7)
    axes.plot(i, pass8, "D", color=plotting.ORANGE, fillstyle="none", markersize=7)
    axes.annotate(
        f"{greedy:.0f}",
        (i, greedy),
        xytext=(9, -4 if pass8 - greedy > 8 else -9),
        textcoords="offset points",
        fontsize=10,
        fontweight="bold",
        color=plotting.BLUE,
    )


def _wrap(name: str) -> str:
    return name.replace(", ", ",\n").replace(" from ", "\nfrom ")
