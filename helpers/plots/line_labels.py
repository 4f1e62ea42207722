"""Names beside the lines of a figure, where they cover neither lines nor names."""

import numpy as np


def label_peaks(axes, drawn):
    """Write each line's name above its highest point at which it crosses no line."""
    letter = 0.017 * np.ptp(axes.get_xlim()) * 7.0 / axes.figure.get_figwidth()
    gap = 0.07 * max(max(y) for _, y, *_ in drawn)
    for x, y, name, colour in drawn:
        half = letter * (len(name) + 1) / 2
        order = np.argsort(-np.asarray(y), kind="stable")
        free = (i for i in order if _crosses_none(x[i], y[i], half, gap, drawn))
        at = next(free, order[0])
        axes.annotate(
            name,
            (x[at], y[at]),
            xytext=(0, 5),
            textcoords="offset points",
            color=colour,
            fontsize=9,
            fontweight="bold",
            ha="center",
        )


def _crosses_none(x, y, half, gap, drawn):
    """Whether all lines stay below or above a name that is lifted off this point."""
    at = np.linspace(x - half, x + half, 40)
    levels = [np.interp(at, line[0], line[1]) for line in drawn]
    return all(line.max() <= y + gap / 3 or line.min() >= y + gap for line in levels)


def label_ends(axes, drawn):
    """Write each line's name at its end, moved up or down where it would hide anything.

    Names of lines that reach the right edge stand beside the axes, apart from each
    other; the name of a shorter line stands where it stops, clear of lines and names.
    """
    low, high = axes.get_ylim()
    right = max((x[-1] for x, *_ in drawn), default=0.0)
    axes.set_xlim(right=right)  # the axis itself runs under no name
    span = np.ptp(axes.get_xlim())
    gap = 0.06 * (high - low) * 3.6 / axes.figure.get_figheight()
    letter = 0.017 * span * 7.0 / axes.figure.get_figwidth()  # width of a bold one
    long = [line for line in drawn if line[0][-1] >= right - 0.02 * span]
    short = [line for line in drawn if line[0][-1] < right - 0.02 * span]
    hidden = [(x, y) for x, y, *_ in drawn]  # what no name may stand on
    for name, height, colour in _apart(long, gap, low, high):
        _label(axes, name, right, height, colour)
        hidden.append(([right, right + span], [height, height]))
    for x, y, name, colour in short:
        reach = x[-1] + letter * (len(name) + 1)
        height = _clear(x[-1], reach, y[-1], hidden, gap, low, high)
        _label(axes, name, x[-1], height, colour)
        hidden.append(([x[-1], reach], [height, height]))


def _apart(lines, gap, low, high):
    """(name, height, colour) of each line, by height, at least a gap between two.

    The heights are the nearest to the lines' ends, in squares, within the axis.
    """
    ends = sorted((float(y[-1]), name, colour) for _, y, name, colour in lines)
    steps = gap * np.arange(len(ends))
    at = np.array([end for end, *_ in ends])
    floor = min([low, *at])
    ceiling = max([high, *at]) - gap * (len(ends) - 1)
    heights = np.clip(_rising(at - steps), floor, ceiling) + steps
    placed = zip(ends, heights.tolist(), strict=True)
    return [(name, height, colour) for (_, name, colour), height in placed]


def _rising(values_N):
    """The nearest numbers, in squares, none of which is below the one before."""
    places = range(len(values_N))
    return np.array(
        [
            max(
                min(values_N[j : k + 1].mean() for k in places[i:])
                for j in places[: i + 1]
            )
            for i in places
        ]
    )


def _clear(left, right, wanted, hidden, gap, low, high):
    """The height nearest to the wanted one at which a name hides none of the lines."""
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


def _label(axes, name, x, y, colour):
    """Write a line's name to the right of a point."""
    axes.annotate(
        name,
        (x, y),
        xytext=(6, 0),
        textcoords="offset points",
        color=colour,
        fontsize=9,
        fontweight="bold",
        va="center",
        annotation_clip=False,
    )
