"""Figures in one style: white canvas, Okabe–Ito colours, direct labels, alt text.

Functions that draw take plain lists and dicts and return a Matplotlib figure; `show`
puts it into the notebook as an image with alt text. A title states what the figure
shows, so it is always an argument. `drawing` shows a committed schematic.
"""

import base64
import io
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.plots import markup
from helpers.runtime.platform import ROOT

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
BLUE, ORANGE, GREEN, PINK, BLACK = COLOURS
DASHES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v")
GREY = "#595959"
PIXELS_PER_INCH = 96  # as shown; drawn at 1.5 times that, for sharp text
DRAWINGS = ROOT / "data" / "drawings"


def figure(title, *, x, y, width=7.0, height=3.6) -> tuple[Figure, Axes]:
    """An empty figure in the course's style.

    Args:
      title: a sentence that states the finding.
      x, y: labels of the axes, with their units.
      width, height: in inches; a width of 7 fills a notebook's column.
    """
    fig = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    axes = fig.add_subplot(facecolor="white")
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", wrap=True)
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
    axes.tick_params(labelsize=9, colors="black")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E0E0E0", linewidth=0.8)
    axes.set_axisbelow(True)
    return fig, axes


def png(fig: Figure) -> bytes:
    """The figure as a PNG file, opaque."""
    file = io.BytesIO()
    fig.savefig(file, format="png", dpi=1.5 * PIXELS_PER_INCH, facecolor="white")
    return file.getvalue()


def show(fig: Figure, alt: str) -> None:
    """Puts a figure into the notebook's output, as an image with alt text.

    Args:
      alt: what a reader who cannot see the figure needs to know: kind, axes, finding.
    """
    markup.display(image(fig, alt))


def image(fig: Figure, alt: str) -> str:
    """The figure as an `<img>` element, as wide as the screen allows."""
    return markup.image(png(fig), alt, round(fig.get_figwidth() * PIXELS_PER_INCH))


def drawing(name: str) -> None:
    """Shows the schematic data/drawings/NAME.svg; its title and desc are the alt text.

    GitHub removes inline SVG from a notebook's outputs and does not show every SVG
    image. So the PNG beside the SVG stands in an `<img>`, within a `<picture>` that
    offers the SVG where it is supported. Both are white cards, in dark mode too.
    """
    drawn = (DRAWINGS / f"{name}.svg").read_bytes()
    root = ElementTree.fromstring(drawn)
    title, words = (root.findtext(f"{{*}}{tag}") for tag in ("title", "desc"))
    pixels = (DRAWINGS / f"{name}.png").read_bytes()
    source = base64.b64encode(drawn).decode()
    markup.display(
        '<picture><source type="image/svg+xml" '
        f'srcset="data:image/svg+xml;base64,{source}">'
        f"{markup.image(pixels, f'{title}. {words}', int(root.attrib['width']))}"
        "</picture>"
    )


def lines(
    x, series, *, title, xlabel, ylabel, from_zero=False, colours=COLOURS
) -> Figure:
    """One line per entry of `series` over the same `x`, each labelled at its end.

    Args:
      series: values by the name of their line.
      title: a sentence that states the finding.
      from_zero: begin the y axis at 0, so that small differences look small.
      colours: of the lines in their order; after the last one the first comes again.
    """
    runs = {name: (x, y) for name, y in series.items()}
    return _draw_lines(runs, title, xlabel, ylabel, colours, from_zero=from_zero)


def densities(
    x, series, *, title, xlabel, ylabel="probability density", colours=COLOURS
) -> Figure:
    """Like `lines`, with each line labelled at its highest point."""
    runs = {name: (x, y) for name, y in series.items()}
    fig = _draw_lines(runs, title, xlabel, ylabel, colours, label=label_peaks)
    fig.axes[0].set_ylim(0, 1.12 * max(max(y) for y in series.values()))
    return fig


def curves(
    runs, y, *, title, ylabel, x="step", xlabel=None, smooth=1, colours=COLOURS
) -> Figure:
    """Learning curves: one column of the trainer's metrics tables.

    Args:
      runs: a metrics table (list of dicts, as `Trainer.fit` returns) by name of run.
      y: the column to draw, such as "reward"; rows without it are left out.
      x: the column along the x axis, such as "step" or "tokens".
      smooth: draw the mean over this many rows, with the raw values faint behind.
    """
    points = {}
    for name, table in runs.items():
        rows = [row for row in table if x in row and y in row]
        if not rows:
            known = sorted({key for row in table for key in row})
            raise KeyError(f"The run {name!r} has no {x!r} and {y!r}, but {known}.")
        points[name] = [row[x] for row in rows], [row[y] for row in rows]
    if smooth <= 1:
        return _draw_lines(points, title, xlabel or x, ylabel, colours)
    means = {name: (at, _mean(of, smooth)) for name, (at, of) in points.items()}
    ylabel = f"{ylabel}, mean of {smooth}"
    return _draw_lines(means, title, xlabel or x, ylabel, colours, raw=points)


def _mean(values, window):
    """Trailing mean over up to `window` values, same length."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(sums))
    first = np.maximum(last - window, 0)
    return (sums[last] - sums[first]) / (last - first)


def label_peaks(axes, drawn):
    """Writes each line's name above its highest point at which it crosses no line.

    Args:
      drawn: (x, y, name, colour) of each line.
    """
    letter = _letter_width(axes)
    gap = 0.07 * max(max(y) for _, y, *_ in drawn)
    for x, y, name, colour in drawn:
        half = letter * (len(name) + 1) / 2
        order = np.argsort(-np.asarray(y), kind="stable")
        free = (i for i in order if _crosses_none(x[i], y[i], half, gap, drawn))
        at = next(free, order[0])
        _write(axes, name, (x[at], y[at]), colour, (0, 5), ha="center")


def _crosses_none(x, y, half, gap, drawn):
    """Whether all lines stay below or above a name that is lifted off this point."""
    at = np.linspace(x - half, x + half, 40)
    levels = [np.interp(at, line[0], line[1]) for line in drawn]
    return all(line.max() <= y + gap / 3 or line.min() >= y + gap for line in levels)


def label_ends(axes, drawn):
    """Writes each line's name at its end, moved where it would hide anything.

    Names of lines that reach the right edge stand beside the axes, apart from each
    other; the name of a shorter line stands where it stops, clear of lines and names.

    Args:
      drawn: (x, y, name, colour) of each line.
    """
    low, high = axes.get_ylim()
    right = max((x[-1] for x, *_ in drawn), default=0.0)
    axes.set_xlim(right=right)  # no axis under the names
    span = np.ptp(axes.get_xlim())
    gap = 0.06 * (high - low) * 3.6 / axes.figure.get_figheight()
    hidden = [(x, y) for x, y, *_ in drawn]  # lines that no name may cover
    long = [line for line in drawn if line[0][-1] >= right - 0.02 * span]
    long.sort(key=lambda line: (float(line[1][-1]), line[2]))
    for height, (*_, name, colour) in zip(
        _apart(long, gap, low, high), long, strict=True
    ):
        _write(axes, name, (right, height), colour, (6, 0), va="center")
        hidden.append(([right, right + span], [height, height]))
    for x, y, name, colour in drawn:
        if x[-1] < right - 0.02 * span:
            reach = x[-1] + _letter_width(axes) * (len(name) + 1)
            height = _clear(x[-1], reach, y[-1], hidden, gap, low, high)
            _write(axes, name, (x[-1], height), colour, (6, 0), va="center")
            hidden.append(([x[-1], reach], [height, height]))


def _letter_width(axes):
    """Width of a bold letter, in units of the x axis."""
    return 0.017 * np.ptp(axes.get_xlim()) * 7.0 / axes.figure.get_figwidth()


def _write(axes, name, place, colour, away, **align):
    look = {"color": colour, "fontsize": 9, "fontweight": "bold"}
    text = {"xytext": away, "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(name, place, **text, **look, **align)


def _apart(lines, gap, low, high):
    """Heights at least a gap apart, nearest to the sorted lines' ends, in the axis.

    Nearest in squares: an isotonic regression of the ends less their gaps.
    """
    steps = gap * np.arange(len(lines))
    at = np.array([float(y[-1]) for _, y, *_ in lines])
    floor, ceiling = min([low, *at]), max([high, *at]) - gap * (len(lines) - 1)
    # The isotonic value at i: over its starts j, the largest of the least means.
    wanted, places = at - steps, range(len(at))
    nearest = [
        max(min(wanted[j : k + 1].mean() for k in places[i:]) for j in places[: i + 1])
        for i in places
    ]
    return (np.clip(nearest, floor, ceiling) + steps).tolist()


def _clear(left, right, wanted, hidden, gap, low, high):
    """The height nearest to the wanted one at which a name covers none of the lines."""
    levels = []
    for x, y in hidden:
        at = np.linspace(left, right, 20)
        at = at[(at >= x[0]) & (at <= x[-1]) & (at > left)]
        levels.extend(np.interp(at, x, y))
    steps = sorted(range(-16, 17), key=abs)
    places = [wanted + step * gap / 2 for step in steps]
    places = [place for place in places if low <= place <= high] or [wanted]
    free = (p for p in places if all(abs(p - level) > 0.7 * gap for level in levels))
    return next(free, places[0])


def _draw_lines(
    runs, title, x, y, colours, *, label=label_ends, from_zero=False, raw=None
):
    fig, axes = figure(title, x=x, y=y)
    # All is drawn before the names, which are laid out by the height of the axis.
    for i, points in enumerate((raw or {}).values()):
        look = {"color": colours[i % len(colours)], "alpha": 0.25, "linewidth": 1}
        axes.plot(*points, **look, zorder=1)
    drawn = []
    for i, (name, points) in enumerate(runs.items()):
        colour, dash = colours[i % len(colours)], DASHES[i % len(DASHES)]
        axes.plot(*points, color=colour, linestyle=dash, linewidth=2)
        drawn.append((*points, name, colour))
    if from_zero:
        axes.set_ylim(0, 1.1 * max(max(y) for _, y in runs.values()))
    label(axes, drawn)
    return fig


def bars(values, *, title, xlabel, percent=True, cycle=5) -> Figure:
    """Horizontal bars with intervals, one per entry, top to bottom.

    Args:
      values: (value, low, high) by name; fractions when `percent`.
      xlabel: what the values are, with their unit and what the interval is.
      percent: show fractions as percentages.
      cycle: after how many bars the colours come again, where these belong together.
    """
    scale, unit = (100, "%") if percent else (1, "")
    fig, axes = figure(title, x=xlabel, y="", height=1.1 + 0.42 * len(values))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#E0E0E0", linewidth=0.8)
    left = min(0, *(low for _, low, _ in values.values())) * scale
    right = max(0, *(high for _, _, high in values.values())) * scale
    for i, (value, low, high) in enumerate(values.values()):
        value, low, high = value * scale, low * scale, high * scale
        axes.barh(i, value, height=0.62, color=COLOURS[i % cycle], alpha=0.85)
        axes.plot([low, high], [i, i], color="black", linewidth=1.6)
        axes.plot([low, high], [i, i], "|", color="black", markersize=8)
        text = f"{value:.1f}{unit}" if percent else f"{value:.3g}"
        at = max(value, high) + 0.015 * (right - left)
        axes.text(at, i, text, va="center", fontsize=9)
    axes.set_xlim(left, right + 0.12 * (right - left) or 1)
    axes.set_yticks(range(len(values)), list(values), fontsize=9)
    axes.invert_yaxis()
    return fig


def roofline(machines, points, *, title: str) -> Figure:
    """Roofs of machines, and measured matmuls under the first of them.

    Args:
      machines: of `tpu.roofline.Machine`, one a line.
      points: (label, intensity in FLOPs per byte, FLOP/s) of each measured matmul.
    """
    fig, axes = figure(title, x="FLOPs per byte moved", y="FLOP/s", height=4.0)
    text = {"textcoords": "offset points"}
    for machine, colour, dash in zip(machines, COLOURS, DASHES, strict=False):
        ridge, at = machine.ridge, [0.3, machine.ridge, 3000]
        roof = [machine.reach(x) for x in at]
        axes.plot(at, roof, color=colour, linestyle=dash, linewidth=2)
        axes.plot(ridge, machine.flops, "o", color=colour)
        label = f"{machine.name}\nridge at {ridge:.0f} FLOP/byte"
        text |= {"color": colour, "fontsize": 9}
        axes.annotate(label, (ridge, machine.flops), xytext=(4, 6), **text)
    text |= {"color": BLACK, "fontsize": 8}
    for label, intensity, flops in points:
        axes.plot(intensity, flops, "D", color=BLUE, fillstyle="none")
        axes.annotate(label, (intensity, flops), xytext=(5, -11), **text)
    axes.set_xscale("log")
    axes.set_yscale("log")
    lowest = min((flops for _, _, flops in points), default=1e9)
    axes.set_ylim(lowest / 4, 8 * max(machine.flops for machine in machines))
    return fig


def guess_trees(trees, *, title) -> Figure:
    """Which guess follows which, from above to below: a panel for each player.

    Args:
      trees: by the player's name, the numbers that it guessed in each of its games.
    """
    fig, axes = figure(title, x="", y="", height=0.8 + 2.2 * len(trees))
    fig.delaxes(axes)
    every = [game for games in trees.values() for game in games]
    deepest, largest = max(map(len, every)), max(map(max, every))
    panels = zip(trees.items(), COLOURS, strict=False)
    for row, ((name, games), colour) in enumerate(panels):
        axes = fig.add_subplot(len(trees), 1, row + 1, facecolor="white")
        axes.set_ylabel(f"{name}\nturn", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        nodes = {(number, turn) for game in games for turn, number in enumerate(game)}
        for game in games:
            axes.plot(game, range(len(game)), color="#B0B0B0", linewidth=1, zorder=1)
        for number, turn in nodes:
            label = {"ha": "center", "va": "center", "fontsize": 7.5, "color": "white"}
            axes.text(number, turn, number, **label, zorder=3)
        axes.scatter(*zip(*nodes, strict=True), s=130, color=colour, zorder=2)
        axes.set_yticks(range(deepest), range(1, deepest + 1))
        axes.set_ylim(deepest - 0.5, -0.5)
        axes.set_xlim(0, largest + 1)
    axes.set_xlabel("number guessed", fontsize=10)
    fig.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return fig


def timeline(lanes, *, title) -> Figure:
    """What ran when: lanes below each other over one axis of time.

    Args:
      lanes: by name, (start, seconds) of each run; they may overlap. Time begins with
        the first of all.
    """
    runs = {name: merged(lane) for name, lane in lanes.items()}
    if not any(runs.values()):
        raise ValueError("No lane has anything that ran: was the right thing recorded?")
    zero = min(lane[0][0] for lane in runs.values() if lane)
    fig, axes = figure(title, x="seconds", y="", height=1.1 + 0.42 * len(runs))
    for row, lane in enumerate(runs.values()):
        shifted = [(start - zero, seconds) for start, seconds in lane]
        colour = COLOURS[row % len(COLOURS)]
        axes.broken_barh(shifted, (row - 0.34, 0.68), facecolor=colour, linewidth=0)
    axes.set_yticks(range(len(runs)), runs)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(False)
    return fig


def merged(lane: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times as (start, seconds) that do not overlap, in order."""
    spans: list[tuple[float, float]] = []  # (start, end)
    for start, seconds in sorted(lane):
        end = start + seconds
        if spans and start <= spans[-1][1]:
            start, before = spans.pop()
            end = max(before, end)
        spans.append((start, end))
    return [(start, end - start) for start, end in spans]
