"""The mesh, on this machine and on eight simulated devices."""

import subprocess
import sys

import jax
import pytest
import simulated_devices

from helpers import runtime


def test_mesh_on_this_machine():
    mesh = runtime.make_mesh()
    assert mesh.axis_names == ("data", "model")
    assert mesh.devices.shape == (len(jax.devices()), 1)
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}
    with pytest.raises(ValueError, match="model=3"):
        runtime.make_mesh(model=3)
    with pytest.raises(ValueError, match="model=0"):
        runtime.make_mesh(model=0)


EIGHT = """
import jax
from helpers import runtime
assert runtime.make_mesh().devices.shape == (8, 1)
mesh = runtime.make_mesh(model=2)
assert mesh.devices.shape == (4, 2)
assert len(set(mesh.devices.flat)) == 8
assert runtime.make_mesh(jax.devices()[:4], model=4).devices.shape == (1, 4)
"""


def test_mesh_on_eight_simulated_devices():
    environment = simulated_devices.environment()
    subprocess.run([sys.executable, "-c", EIGHT], check=True, env=environment)
