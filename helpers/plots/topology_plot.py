"""A slice as a picture: chips in space with their links, and how many hops away."""

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from helpers.plots import plotting
from helpers.tpu.topology import Slice

WIDTH = 4.6  # inches: a phone shows them on 343 pixels, 10 points are 10 pixels there
LAYERS_APART = 2.6  # times as far as neighbours within a layer
POINTS = 10  # of the text


def picture(part: Slice, chip: int = 0) -> Figure:
    """The slice in space, and below it how far its chips are from one of them.

    Blue are chips and the links within a host, grey the links between hosts, orange the
    chosen chip and the links that close its rings, dashed; those of other rows are left
    out.

    Args:
      part: from `topology.named`.
      chip: its number; circled, and the start of the hops.
    """
    height = 7.4 if _layers_apart(part.shape) > 1 else 5.6
    fig = Figure(figsize=(WIDTH, height), facecolor="white")
    heading = f"{part.name}: no two of its {part.chips} chips\n"
    heading += f"are more than {_count(part.diameter, 'hop')} apart"
    fig.suptitle(heading, x=0.02, y=0.99, ha="left", fontsize=11, fontweight="bold")
    bottom, top = 2.5 / height, 1 - 0.45 / height  # in space; the bars are below
    place = (0.0, bottom, 1.0, top - bottom)
    space = fig.add_axes(place, projection="3d", computed_zorder=False)
    _draw_links(space, part, chip)
    _draw_chips(space, part, chip)
    _set_view(space, part)
    _draw_hops(fig.add_axes((0.16, 0.5 / height, 0.78, 1.9 / height)), part, chip)
    return fig


def title(part: Slice) -> str:
    """What a slice has in all, in one line."""
    chips, hosts = _count(part.chips, "chip"), _count(part.hosts, "host")
    memory = f"{part.chips * part.chip.hbm_gb:,.0f} GB of HBM"
    pflops = part.chips * part.chip.tflops / 1000
    return f"{part.name}: {chips}, {hosts}, {memory}, {pflops:,.1f} PFLOP/s"


def caption(part: Slice, chip: int = 0) -> str:
    """The picture in words: totals, rings and hops; alt text and caption in one."""
    axes = [name for name, ring in zip("xyz", part.rings, strict=True) if ring]
    rings = f"rings along {' and '.join(axes)}" if axes else "no ring: edges end"
    hops = part.hops(chip)
    mean = hops.sum() / max(part.chips - 1, 1)
    return (
        f"{title(part)} in bfloat16; {rings}. Above, the chips in space with their "
        "links, those within a host thick, and the chosen chip circled; below, bars of "
        f"how many chips are how many hops away. From chip {chip} the farthest chip is "
        f"{hops.max()} hops away, the mean is {mean:.1f}; "
        f"no two chips are more than {part.diameter} apart."
    )


def _count(number, name):
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _set_view(space, part):
    """The same scale along x and y; how far it goes is said at three corners."""
    last = np.array(part.shape) - 1
    spans = np.maximum(last, 1)
    spans = np.maximum(spans, 0.3 * spans.max())
    for axis, span, end in zip("xyz", spans, last, strict=True):
        space.set(**{f"{axis}lim": (end / 2 - span / 2, end / 2 + span / 2)})
    flat = part.shape[2] == 1
    aspect = spans * [1, 1, _layers_apart(part.shape)]
    space.set_box_aspect(aspect, zoom=1.1 if flat else 0.9)
    space.view_init(elev=38 if flat else 24, azim=-62)
    space.set_axis_off()
    for axis, name in enumerate("xyz"):
        if last[axis]:
            corner = [*last[: axis + 1], 0, 0][:3]
            look = {"fontsize": POINTS, "va": "center" if axis else "top"}
            space.text(*corner, f"   {name} = {last[axis]}", **look)


def _layers_apart(shape):
    """How much larger the scale is along z, so that no layer hides the one behind it.

    More than four layers would make a tower, in which nothing can be distinguished.
    """
    return LAYERS_APART if 1 < shape[2] <= 4 else 1.0


def _draw_links(space, part, chip):
    pairs, closing = part.links()
    places = part.coordinates.astype(float)
    within = (part.host_of[pairs[:, 0]] == part.host_of[pairs[:, 1]]) & ~closing
    thick = 2.0 if part.chips <= 64 else 1.2
    between = (~within & ~closing, "#A0A0A0", 0.7)
    for chosen, colour, width in (between, (within, plotting.BLUE, thick)):
        if chosen.any():
            drawn = {"colors": colour, "linewidths": width, "clip_on": False}
            lines = Line3DCollection(places[pairs[chosen]], zorder=1, **drawn)
            space.add_collection(lines)
    rings = places[pairs[closing]]
    across = rings[:, 0] != rings[:, 1]  # the axis that each closes
    mine = rings[(across | (rings[:, 0] == places[chip])).all(axis=1)]
    drawn = {"color": plotting.ORANGE, "linewidth": 1.6, "clip_on": False}
    for start, end in mine:
        space.plot(*_arc(start, end, part.shape), "--", zorder=2, **drawn)


def _arc(start, end, shape):
    """Points of a curve from one end of a row to the other, outside of the block."""
    way = np.linspace(0, 1, 30)
    points = start + way[:, None] * (end - start)
    axis = int(np.flatnonzero(start != end)[0])
    side = 1 if axis == 2 else 2  # rows along z bow to the side, others up or down
    up = 1 if start[side] * 2 >= shape[side] - 1 else -1
    height = 0.8 / (_layers_apart(shape) if side == 2 else 1)
    points[:, side] += up * height * shape[axis] * way * (1 - way)
    return points.T


def _draw_chips(space, part, chip):
    size = float(np.clip(2000 / part.chips, 5, 50))
    chosen = np.arange(part.chips) == chip
    for ours, colour in ((~chosen, plotting.BLUE), (chosen, plotting.ORANGE)):
        drawn = {"color": colour, "s": size, "depthshade": False, "clip_on": False}
        space.scatter(*part.coordinates[ours].T, zorder=3, **drawn)
    ring = {"facecolors": "none", "edgecolors": plotting.ORANGE, "clip_on": False}
    around = {"s": 3 * size + 30, "linewidths": 1.5, "zorder": 4}
    space.scatter(*part.coordinates[[chip]].T, **ring, **around)


def _draw_hops(bars, part, chip):
    counts = np.bincount(part.hops(chip))
    colours = [plotting.ORANGE] + [plotting.BLUE] * (len(counts) - 1)
    bars.bar(range(len(counts)), counts, color=colours, width=0.7)
    few = len(counts) <= 12
    if few:
        for hops, count in enumerate(counts):
            bars.text(hops, count, count, ha="center", va="bottom", fontsize=POINTS)
    bars.set_xlim(-0.6, max(len(counts), 4) - 0.4)
    bars.set_ylim(0, 1.2 * counts.max())
    bars.set_ylabel("chips", fontsize=POINTS)
    bars.set_xlabel(f"hops from chip {chip} (orange)", fontsize=POINTS)
    bars.set_xticks(range(0, len(counts), 1 if few else 4))
    bars.yaxis.get_major_locator().set_params(integer=True, nbins=5)
    bars.tick_params(labelsize=POINTS)
    bars.spines[["top", "right"]].set_visible(False)
