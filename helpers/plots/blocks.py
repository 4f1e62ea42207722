"""Which chip holds which block of an array: in bytes, and as a figure."""

from collections.abc import Mapping

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.plots.plotting import COLOURS, figure


def bytes_per_chip(tree) -> dict[int, int]:
    """{id of a device: bytes it holds} of all arrays in a tree, copies counted."""
    held: dict[int, int] = {}
    for x in jax.tree.leaves(tree):
        for shard in x.addressable_shards:
            held[shard.device.id] = held.get(shard.device.id, 0) + shard.data.nbytes
    return held


def holders(array) -> dict[tuple, list[int]]:
    """{block: chips that hold it} of a matrix; a block is (top, bottom, left, right).

    Chips are numbered along the mesh, from 0. An axis that is not cut spans its length.
    """
    found: dict[tuple, list[int]] = {}
    where = array.sharding.devices_indices_map(array.shape)
    order = [device.id for device in array.sharding.mesh.devices.flat]
    for device, cut in where.items():
        (top, bottom, _), (left, right, _) = (
            part.indices(size) for part, size in zip(cut, array.shape, strict=True)
        )
        block = (top, bottom, left, right)
        found.setdefault(block, []).append(order.index(device.id))
    return {block: sorted(chips) for block, chips in sorted(found.items())}


def draw(arrays: Mapping[str, jax.Array], *, title: str) -> Figure:
    """Matrices side by side, each cut into its blocks, with the chips that hold them.

    Args:
      arrays: matrices with a NamedSharding, by what to write under them.
      title: a sentence that states the finding.
    """
    fig, axes = figure(title, x="", y="", width=9.0, height=3.0)
    for place, array in enumerate(arrays.values()):
        rows, columns = array.shape
        for number, ((top, bottom, left, right), chips) in enumerate(
            holders(array).items()
        ):
            corner = (1.2 * place + left / columns, top / rows)
            wide, high = (right - left) / columns, (bottom - top) / rows
            colour = COLOURS[number % 4]
            style = {"facecolor": colour, "edgecolor": "white", "linewidth": 2}
            axes.add_patch(Rectangle(corner, wide, high, alpha=0.45, **style))
            centre = (corner[0] + wide / 2, corner[1] + high / 2)
            tall = {"rotation": 90} if wide < 0.2 and len(chips) > 1 else {}
            axes.annotate(
                _named(chips), centre, color="black", ha="center", va="center", **tall
            )
    axes.set_xlim(-0.05, 1.2 * len(arrays) - 0.15)
    axes.set_ylim(1.02, -0.02)
    axes.set_xticks(0.5 + 1.2 * np.arange(len(arrays)), list(arrays), fontsize=9)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return fig


def _named(chips):
    """Numbers of chips, runs of three or more as first–last."""
    if len(chips) > 2 and chips[-1] - chips[0] == len(chips) - 1:
        return f"{chips[0]}–{chips[-1]}"
    return ", ".join(map(str, chips))
