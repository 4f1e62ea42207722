"""A slice as a picture: chips in space, coloured by host, with their links and hops."""

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from helpers.plots import plotting
from helpers.tpu.topology import Slice

LAYERS_APART = 2.0  # times as far as neighbours within a layer
RING_END = 0.4  # of a link: what is drawn of those that close a ring


def picture(part: Slice, chip: int = 0) -> Figure:
    """The slice in space, and beside it how far its chips are from one of them.

    Neighbouring hosts differ in colour and marker. Links that close a ring are dashed:
    whole for the rings of the chosen chip, and only their two ends for all others.

    Args:
      part: from `topology.named`.
      chip: its number; circled, and the start of the hops.
    """
    fig = Figure(figsize=(7.0, 4.2), facecolor="white", layout="constrained")
    left, right = fig.add_gridspec(1, 2, width_ratios=[3, 1])
    space = fig.add_subplot(left, projection="3d", computed_zorder=False)
    fig.suptitle(title(part), x=0.01, ha="left", fontsize=11, fontweight="bold")
    _draw_links(space, part, chip)
    _draw_chips(space, part, chip)
    _set_view(space, part)
    _draw_hops(fig.add_subplot(right), part, chip)
    return fig


def title(part: Slice) -> str:
    """What a slice has in all, in one line."""
    chips, hosts = _count(part.chips, "chip"), _count(part.hosts, "host")
    memory = f"{part.hbm_gb:,.0f} GB of HBM"
    return f"{part.name}: {chips}, {hosts}, {memory}, {part.pflops:,.1f} PFLOP/s"


def caption(part: Slice, chip: int = 0) -> str:
    """The picture in words: totals, rings and hops; alt text and caption in one."""
    axes = [name for name, ring in zip("xyz", part.rings, strict=True) if ring]
    rings = f"rings along {' and '.join(axes)}" if axes else "no ring: edges end"
    return (
        f"{title(part)} in bfloat16; {rings}. Left, the chips in space with their "
        "links, those of a host alike in colour and marker; right, bars of how many "
        f"chips are how many hops away. From chip {chip} the farthest chip is "
        f"{part.hops(chip).max()} hops away, the mean is {_mean_hops(part, chip):.1f}; "
        f"no two chips are more than {part.diameter} apart."
    )


def _count(number, name):
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _mean_hops(part, chip):
    return part.hops(chip).sum() / max(part.chips - 1, 1)


def _set_view(space, part):
    """The same scale along x and y, no walls, first and last chip at the ticks."""
    apart = _layers_apart(part.shape)
    room = 2.0 if apart == 1 else 2 * RING_END  # for what closes the rings
    spans = np.array(part.shape) - 1 + room * np.array(part.rings)
    spans = np.maximum(spans, max(1.0, 0.3 * spans.max()))
    middle = (np.array(part.shape) - 1) / 2
    limits = zip(
        ("xlim", "ylim", "zlim"), middle - spans / 2, middle + spans / 2, strict=True
    )
    space.set(**{name: (low, high) for name, low, high in limits})
    space.set_box_aspect(spans * [1, 1, apart], zoom=1.1 if apart == 1 else 0.95)
    space.view_init(elev=26, azim=-62)
    for axis, name, size in zip(
        (space.xaxis, space.yaxis, space.zaxis), "xyz", part.shape, strict=True
    ):
        axis.set_ticks([0, size - 1] if size > 1 else [])
        axis.set_label_text(name if size > 1 else "", fontsize=9)
        axis.set_pane_color("white")
        axis.line.set_visible(size > 1)
    space.grid(False)
    space.tick_params(labelsize=8, pad=0)


def _layers_apart(shape):
    """How much larger the scale is along z, so that no layer hides the one behind it.

    More than four layers would make a tower, in which nothing is to be told apart.
    """
    return LAYERS_APART if 1 < shape[2] <= 4 else 1.0


def _draw_links(space, part, chip):
    pairs, closing = part.links()
    places = part.coordinates.astype(float)
    straight, rings = places[pairs[~closing]], places[pairs[closing]]
    step = RING_END * np.sign(rings[:, :1] - rings[:, 1:])
    ends = np.concatenate([rings[:, :1], rings[:, :1] + step], axis=1)
    ends = np.concatenate(
        [ends, np.concatenate([rings[:, 1:], rings[:, 1:] - step], 1)]
    )
    for lines, style in ((straight, "-"), (ends, (0, (2, 1.5)))):
        if len(lines):
            drawn = {"colors": "#7F7F7F", "linewidths": 0.7, "linestyles": [style]}
            space.add_collection(Line3DCollection(lines, zorder=1, **drawn))
    across = rings[:, 0] != rings[:, 1]  # the axis that each closes
    mine = rings[(across | (rings[:, 0] == places[chip])).all(axis=1)]
    for start, end in mine:
        arc = _arc(start, end, part.shape)
        space.plot(*arc, "--", color="black", linewidth=1.1, zorder=2)


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
    hosts = np.array(
        [
            np.min(part.coordinates[part.host_of == host], axis=0)
            for host in range(part.hosts)
        ]
    )
    places = hosts // np.minimum(part.shape, part.chip.host)
    colour_of = (places @ [1, 2, 3]) % len(plotting.COLOURS)  # neighbours differ
    size = float(np.clip(2600 / part.chips, 7, 90))
    for i, (colour, marker) in enumerate(
        zip(plotting.COLOURS, plotting.MARKERS, strict=True)
    ):
        chosen = part.coordinates[colour_of[part.host_of] == i]
        space.scatter(
            *chosen.T, color=colour, marker=marker, s=size, depthshade=False, zorder=3
        )
    ring = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.5, "zorder": 4}
    space.scatter(*part.coordinates[[chip]].T, s=3 * size + 40, **ring)


def _draw_hops(bars, part, chip):
    counts = np.bincount(part.hops(chip))
    bars.barh(range(len(counts)), counts, color=plotting.BLUE, height=0.7)
    if len(counts) <= 12:
        for hops, count in enumerate(counts):
            bars.text(count, hops, f" {count}", va="center", fontsize=8)
    bars.set_xlim(0, 1.25 * counts.max())
    bars.set_xlabel("chips", fontsize=9)
    bars.set_ylabel(f"hops from chip {chip} (circled)", fontsize=9)
    bars.set_yticks(range(0, len(counts), 1 if len(counts) <= 12 else 4))
    bars.xaxis.get_major_locator().set_params(integer=True)
    bars.invert_yaxis()
    bars.tick_params(labelsize=8)
    bars.spines[["top", "right"]].set_visible(False)
