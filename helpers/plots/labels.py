"""Names beside the lines of a figure, where they cover neither lines nor names."""

import numpy as np


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
