"""Eight simulated devices and one give the same lessons, samples, sight and files."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        *("sampling", "sft", "mixed", "grpo", "calculator", "drafter", "dpo"),
        *("distillation", "adapters", "cut"),
        *("vision", "saving"),
    ],
)
def test_eight_devices_are_one(what):
    script = "sharded_lessons.py"
    if what in ("vision", "saving"):
        script = f"sharded_{what}.py"
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    finished = subprocess.run(
        [sys.executable, HERE / script, what],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip().endswith("all the same")
