"""Figures in one style: white canvas, Okabe–Ito colours, direct labels, alt text.

Functions that draw take plain lists and dicts and return a Matplotlib figure; `show`
puts it into the notebook as an image with alt text. A title states what the figure
shows, so it is always an argument. Tables of answers and tokens are in `markup.py`.
"""

import base64
import html
import io
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.plots import markup
from helpers.plots.line_labels import label_ends, label_peaks

BLUE, ORANGE, GREEN, PINK, BLACK = COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
)
DASHES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v")
GREY = "#595959"
PIXELS_PER_INCH = 96  # as shown; drawn at 1.5 times that, for sharp text


def figure(
    title: str, *, x: str, y: str, width: float = 7.0, height: float = 3.6
) -> tuple[Figure, Axes]:
    """An empty figure in the course's style.

    Args:
      title: a sentence that states the finding.
      x: label of the x axis, with its unit.
      y: label of the y axis, with its unit.
      width: in inches; 7 fills a notebook's column.
      height: in inches.
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
    """Put the figure into the notebook's output, as an image with alt text.

    Args:
      fig: from this module, or any Matplotlib figure.
      alt: what a reader who cannot see the figure needs to know: kind, axes, finding.
    Raises:
      ValueError: the alt text is empty.
    """
    markup.display(image(fig, alt))


def image(fig: Figure, alt: str) -> str:
    """The figure as an `<img>` element, as wide as the screen allows.

    Args:
      fig, alt: as for `show`.
    Raises:
      ValueError: the alt text is empty.
    """
    return _element(png(fig), alt, round(fig.get_figwidth() * PIXELS_PER_INCH))


def show_file(file: pathlib.Path, alt: str, width: int = 672) -> None:
    """Put a picture of a PNG file into the notebook's output, with alt text.

    Args:
      file: the PNG.
      alt: as for `show`.
      width: in pixels of the page, where there is room.
    Raises:
      ValueError: the alt text is empty.
    """
    markup.display(_element(file.read_bytes(), alt, width))


def _element(data: bytes, alt: str, width: int) -> str:
    if not alt.strip():
        raise ValueError("A figure needs alt text: say what it shows and finds.")
    text = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt, quote=True)}" width="{width}" '
        f'style="max-width:100%;background:white" src="data:image/png;base64,{text}">'
    )


def lines(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    from_zero: bool = False,
    colours: Sequence[str] = COLOURS,
) -> Figure:
    """One line per entry of `series` over the same `x`, each labelled at its end.

    Args:
      x: where the values of all lines are.
      series: values by the name of their line.
      title: a sentence that states the finding.
      xlabel, ylabel: what the axes are, with their units.
      from_zero: begin the y axis at 0, so that small differences look small.
      colours: of the lines in their order; after the last one the first comes again.
    """
    runs = {name: (x, y) for name, y in series.items()}
    axes = {"title": title, "xlabel": xlabel, "ylabel": ylabel, "colours": colours}
    return _draw_lines(runs, **axes, from_zero=from_zero)


def densities(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str = "probability density",
    colours: Sequence[str] = COLOURS,
) -> Figure:
    """Like `lines`, with each line labelled at its highest point."""
    runs = {name: (x, y) for name, y in series.items()}
    axes = {"title": title, "xlabel": xlabel, "ylabel": ylabel, "colours": colours}
    fig = _draw_lines(runs, **axes, label=label_peaks)
    fig.axes[0].set_ylim(0, 1.12 * max(max(y) for y in series.values()))
    return fig


def curves(
    runs: Mapping[str, Sequence[Mapping[str, float]]],
    y: str,
    *,
    title: str,
    ylabel: str,
    x: str = "step",
    xlabel: str | None = None,
    smooth: int = 1,
    colours: Sequence[str] = COLOURS,
) -> Figure:
    """Learning curves: one column of the trainer's metrics tables.

    Args:
      runs: a metrics table (list of dicts, as `Trainer.fit` returns) by name of run.
      y: the column to draw, such as "reward"; rows without it are left out.
      title: a sentence that states the finding.
      ylabel: what `y` is, with its unit.
      x: the column along the x axis, such as "step" or "tokens".
      xlabel: defaults to `x`.
      smooth: draw the mean over this many rows, with the raw values faint behind.
      colours: as for `lines`.
    Raises:
      KeyError: no row of a run has both columns; names those it has.
    """
    points = {name: _columns(name, table, x, y) for name, table in runs.items()}
    axes = {"title": title, "xlabel": xlabel or x, "ylabel": ylabel, "colours": colours}
    if smooth <= 1:
        return _draw_lines(points, **axes)
    means = {name: (at, _mean(of, smooth)) for name, (at, of) in points.items()}
    axes["ylabel"] = f"{ylabel}, mean of {smooth}"
    return _draw_lines(means, raw=points, **axes)


def _columns(name, table, x, y):
    rows = [row for row in table if x in row and y in row]
    if not rows:
        known = sorted({key for row in table for key in row})
        raise KeyError(f"The run {name!r} has no rows with {x!r} and {y!r}: {known}.")
    return [row[x] for row in rows], [row[y] for row in rows]


def _mean(values, window):
    """Trailing mean over up to `window` values, same length."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(sums))
    first = np.maximum(last - window, 0)
    return (sums[last] - sums[first]) / (last - first)


def _cycle(styles, names):
    return [styles[i % len(styles)] for i in range(len(names))]


def _draw_lines(
    runs, *, title, xlabel, ylabel, colours, label=None, from_zero=False, raw=None
):
    fig, axes = figure(title, x=xlabel, y=ylabel)
    # Before the names, too: they are spread by the height of the whole axis.
    raw = raw or {}
    for (x, y), colour in zip(raw.values(), _cycle(colours, raw), strict=True):
        axes.plot(x, y, color=colour, alpha=0.25, linewidth=1, zorder=1)
    styles = zip(_cycle(colours, runs), _cycle(DASHES, runs), strict=True)
    drawn = []
    for (name, (x, y)), (colour, dash) in zip(runs.items(), styles, strict=True):
        axes.plot(x, y, color=colour, linestyle=dash, linewidth=2)
        drawn.append((x, y, name, colour))
    if from_zero:  # before the names, which are laid out by the axis
        axes.set_ylim(0, 1.1 * max(max(y) for _, y in runs.values()))
    (label or label_ends)(axes, drawn)
    return fig


def bars(
    values: Mapping[str, tuple[float, float, float]],
    *,
    title: str,
    xlabel: str,
    percent: bool = True,
    cycle: int = len(COLOURS),
) -> Figure:
    """Horizontal bars with intervals, one per entry, top to bottom.

    Args:
      values: (value, low, high) by name; fractions when `percent`.
      title: a sentence that states the finding.
      xlabel: what the values are, with their unit and what the interval is.
      percent: show fractions as percentages.
      cycle: after how many bars the colours come again, where these belong together.
    """
    scale, unit = (100, "%") if percent else (1, "")
    height = 1.1 + 0.42 * len(values)
    fig, axes = figure(title, x=xlabel, y="", height=height)
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


def standing_bars(
    values: Mapping[str, float], labels: Sequence[str], *, title: str, ylabel: str
) -> Figure:
    """Bars from zero, one per entry, left to right, each with its label on top.

    Args:
      values: numbers from 0 up by name.
      labels: what is written over each of them.
      title: a sentence that states the finding.
      ylabel: what the values are, with their unit.
    """
    fig, axes = figure(title, x="", y=ylabel, width=5.4, height=2.6)
    axes.bar(list(values), list(values.values()), color=GREEN, width=0.62)
    for i, (value, label) in enumerate(zip(values.values(), labels, strict=True)):
        axes.text(i, value, label, ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0, 1.2 * max(values.values(), default=0) or 1.0)
    return fig
