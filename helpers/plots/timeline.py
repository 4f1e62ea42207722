"""What ran when: a lane for each thing, a bar for each time it ran."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from helpers.plots import plotting


def timeline(
    lanes: Mapping[str, Sequence[tuple[float, float]]], *, title: str
) -> Figure:
    """Lanes below each other, the first on top, over one axis of time.

    Args:
      lanes: by name, (start, seconds) of each run; they may overlap. Time begins with
        the first of all.
      title: a sentence that states the finding.
    Raises:
      ValueError: nothing ran in any lane.
    """
    runs = {name: merged(lane) for name, lane in lanes.items()}
    if not any(runs.values()):
        raise ValueError("No lane has anything that ran: was the right thing recorded?")
    zero = min(lane[0][0] for lane in runs.values() if lane)
    height = 1.1 + 0.42 * len(runs)
    fig, axes = plotting.figure(title, x="seconds", y="", height=height)
    for row, lane in enumerate(runs.values()):
        shifted = [(start - zero, seconds) for start, seconds in lane]
        colour = plotting.COLOURS[row % len(plotting.COLOURS)]
        axes.broken_barh(shifted, (row - 0.34, 0.68), facecolor=colour, linewidth=0)
    axes.set_yticks(range(len(runs)), runs)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(False)
    return fig


def merged(lane: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times as (start, seconds) that do not overlap, in order."""
    found: list[list[float]] = []
    for start, seconds in sorted(lane):
        end = start + seconds
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return [(start, end - start) for start, end in found]
