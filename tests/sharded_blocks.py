"""Which of eight devices holds which block, against blocks counted by hand.

Run by `sharded.py blocks`.
"""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from helpers.plots import blocks
from helpers.runtime.sharding import make_mesh


def put(mesh, *spec):
    layout = NamedSharding(mesh, PartitionSpec(*spec))
    return jax.device_put(np.ones((8, 4), np.float32), layout)


def main():
    grid, line = make_mesh(model=2), make_mesh()
    assert blocks.holders(put(line)) == {(0, 8, 0, 4): list(range(8))}
    bands = blocks.holders(put(grid, "data"))
    assert bands == {(2 * i, 2 * i + 2, 0, 4): [2 * i, 2 * i + 1] for i in range(4)}
    both = blocks.holders(put(grid, "data", "model"))
    assert both[2, 4, 2, 4] == [3] and len(both) == 8
    assert blocks.bytes_per_chip([put(line), put(line, "data")]) == {
        device.id: 128 + 16 for device in jax.devices()
    }
    blocks.draw({"a": put(line), "b": put(grid, "data")}, title="Two layouts")
