"""Which chip holds which block of an array: in bytes, and as a figure."""

import math
from collections.abc import Mapping

import jax
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.plots.plotting import BLUE, figure

STOPS = [(0, "#E3F0F9"), (0.55, BLUE), (1, "#001F33")]  # of the first to the last chip
SHADES = LinearSegmentedColormap.from_list("chips", STOPS)
EVERYBODY = "#F0B98D"  # a tint of orange
SIZE = 12  # in points: 12 pixels high on a phone


def bytes_per_chip(tree) -> dict[int, int]:
    """{id of a device: bytes it holds} of all arrays in a tree, copies counted."""
    sizes: dict[int, int] = {}
    for x in jax.tree.leaves(tree):
        for shard in x.addressable_shards:
            sizes[shard.device.id] = sizes.get(shard.device.id, 0) + shard.data.nbytes
    return sizes


def holders(array) -> dict[tuple, list[int]]:
    """{block: chips that hold it} of a matrix; a block is (top, bottom, left, right).

    Chips are numbered along the mesh, from 0. An axis that is not cut spans its length.
    """
    blocks: dict[tuple, list[int]] = {}
    where = array.sharding.devices_indices_map(array.shape)
    for chip, device in enumerate(array.sharding.mesh.devices.flat):
        (top, bottom, _), (left, right, _) = (
            part.indices(size)
            for part, size in zip(where[device], array.shape, strict=True)
        )
        blocks.setdefault((top, bottom, left, right), []).append(chip)
    return dict(sorted(blocks.items()))


def draw(arrays: Mapping[str, jax.Array], *, title: str) -> Figure:
    """Matrices, two in a row, each cut into its blocks, with the chips that hold them.

    The shade of a block rises with the numbers of its chips; one that all chips hold
    has a colour of its own.

    Args:
      arrays: matrices with a NamedSharding, by what to write under them.
      title: a sentence that states the finding.
    """
    height = 2.55 * math.ceil(len(arrays) / 2) + 0.2
    fig, axes = figure(title, x="", y="", width=5.0, height=height)
    for place, (name, array) in enumerate(arrays.items()):
        x, y = 1.15 * (place % 2), 1.45 * (place // 2)
        _draw_one(axes, array, x, y)
        axes.text(x + 0.5, y + 1.04, name, ha="center", va="top", fontsize=SIZE)
    axes.set_xlim(-0.02, 2.17)
    axes.set_ylim(1.45 * math.ceil(len(arrays) / 2), -0.02)
    axes.set_axis_off()
    return fig


def _draw_one(axes, array, x, y):
    """The blocks of one matrix, in a square of side 1 whose corner is (x, y)."""
    rows, columns = array.shape
    for (top, bottom, left, right), chips in holders(array).items():
        corner = (x + left / columns, y + top / rows)
        wide, high = (right - left) / columns, (bottom - top) / rows
        fill, ink = _colours(chips, array.sharding.mesh.size)
        block = Rectangle(corner, wide, high, facecolor=fill, edgecolor="white", lw=2)
        axes.add_patch(block)
        centre = (corner[0] + wide / 2, corner[1] + high / 2)
        at = {"ha": "center", "va": "center"}
        at |= {"rotation": 90} if wide < 0.2 and len(chips) > 1 else {}
        axes.annotate(_named(chips), centre, color=ink, fontsize=SIZE, **at)


def _colours(chips, count):
    """(fill, text) of a block that some of `count` chips hold."""
    shade = to_hex(SHADES(np.mean(chips) / max(count - 1, 1)))
    fill = EVERYBODY if len(chips) == count > 1 else shade
    bright = np.dot((0.2126, 0.7152, 0.0722), np.power(to_rgb(fill), 2.2))
    return fill, "white" if bright < 0.18 else "black"


def _named(chips):
    """Numbers of chips, runs of three or more as first–last."""
    if len(chips) > 2 and chips[-1] - chips[0] == len(chips) - 1:
        return f"{chips[0]}–{chips[-1]}"
    return ", ".join(map(str, chips))
