"""Which chip holds which block, on one device; `sharded_blocks` asks eight."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from helpers.plots import blocks
from helpers.runtime.sharding import make_mesh


def test_one_device_holds_all():
    mesh = make_mesh(jax.devices()[:1])
    x = np.ones((6, 2), np.float32)
    array = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    assert blocks.holders(array) == {(0, 6, 0, 2): [0]}
    assert list(blocks.bytes_per_chip({"x": array, "y": array}).values()) == [96]
