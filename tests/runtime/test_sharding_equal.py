"""Eight simulated devices and one give the same lessons, samples and sight."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sampling", "sft", "grpo", "distillation", "vision"])
def test_eight_devices_are_one(what):
    script = "sharded_vision.py" if what == "vision" else "sharded_lessons.py"
    flags = "--xla_force_host_platform_device_count=8"
    finished = subprocess.run(
        [sys.executable, HERE / script, what],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip().endswith("all the same")
