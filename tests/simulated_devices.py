"""Runs a script of this folder in a process of its own, on simulated devices."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
# `quick` has them look for garbage less often.
PATHS = os.pathsep.join(map(str, (TESTS / "quick", TESTS.parent, TESTS)))


def environment(devices=8, **settings):
    """This process's, with that many devices and what is set."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count"
    variables = {"XLA_FLAGS": f"{flags}={devices}", "PYTHONPATH": PATHS}
    # Programs of several devices that are read back from disk may wait for each other
    # for ever.
    variables["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    return os.environ | variables | {"JAX_PLATFORMS": "cpu"} | settings


def run(script, *arguments, devices=8):
    """What the script printed.

    Raises:
      AssertionError: it failed, with what it said.
    """
    done = subprocess.run(
        [sys.executable, str(TESTS / script), *arguments],
        env=environment(devices),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
