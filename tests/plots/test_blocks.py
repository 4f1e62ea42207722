"""Which chip holds which block: against blocks counted by hand, on eight devices."""

import subprocess
import sys

import jax
import numpy as np
import pytest
import simulated_devices
from jax.sharding import NamedSharding, PartitionSpec

from helpers.plots import blocks
from helpers.runtime.sharding import make_mesh

ON_EIGHT = """
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from helpers.plots import blocks
from helpers.runtime import make_mesh

assert len(jax.devices()) == 8
grid, line = make_mesh(model=2), make_mesh()


def put(mesh, *spec):
    return jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P(*spec)))


assert blocks.holders(put(line)) == {(0, 8, 0, 4): list(range(8))}
bands = blocks.holders(put(grid, "data"))
assert bands == {(2 * i, 2 * i + 2, 0, 4): [2 * i, 2 * i + 1] for i in range(4)}
both = blocks.holders(put(grid, "data", "model"))
assert both[2, 4, 2, 4] == [3] and len(both) == 8
assert blocks.bytes_per_chip([put(line), put(line, "data")]) == {
    device.id: 128 + 16 for device in jax.devices()
}
blocks.draw({"a": put(line), "b": put(grid, "data")}, title="Two layouts")
"""


def test_one_device_holds_all():
    mesh = make_mesh(jax.devices()[:1])
    x = np.ones((6, 2), np.float32)
    array = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    assert blocks.holders(array) == {(0, 6, 0, 2): [0]}
    assert list(blocks.bytes_per_chip({"x": array, "y": array}).values()) == [96]


@pytest.mark.slow
def test_blocks_on_eight_devices():
    environment = simulated_devices.environment()
    subprocess.run([sys.executable, "-c", ON_EIGHT], check=True, env=environment)
