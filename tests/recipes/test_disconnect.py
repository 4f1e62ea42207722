"""A session that is cut off twice: the same cell goes on, and nothing is paid twice."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from disconnected import SMALL
from safetensors.numpy import load_file

from helpers.runtime.lasting import NAME
from helpers.training.metrics_log import is_timing

SCRIPT = pathlib.Path(__file__).parents[1] / "disconnected.py"
RUN = pathlib.Path("MyDrive", NAME, "runs", f"grpo_{SMALL.name}")


def session(drive, cache):
    """A machine of its own that has nothing but what lies on the drive."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, str(SCRIPT), str(drive)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finished(drive, cache):
    """What a session says that runs to its end."""
    with session(drive, cache) as running:
        said, _ = running.communicate(timeout=600)
        assert running.returncode == 0
    return said


def cut_off_after(steps, drive, cache):
    """Kills a session when this many steps have been logged; returns how many were."""
    with session(drive, cache) as running:
        while len(rows(drive)) < steps:
            assert running.poll() is None, "it ended by itself"
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    return len(rows(drive))


def rows(drive):
    """The logged steps, without what the clock says."""
    log = drive / RUN / "metrics.jsonl"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    table = [json.loads(line) for line in lines]
    return [{n: x for n, x in row.items() if not is_timing(n)} for row in table]


@pytest.mark.slow
def test_two_disconnects_cost_a_tenth_each_and_change_nothing(tmp_path):
    straight, drive, cache = (tmp_path / name for name in ("a", "drive", "cache"))
    expected = finished(straight, cache)
    between, steps = SMALL.rl.save_every, SMALL.rl.steps
    first = cut_off_after(3, drive, cache)
    second = cut_off_after(first + between + 3, drive, cache)
    assert first < second < steps
    said = finished(drive, cache)
    assert "measured before" in said and "measured before" not in expected
    assert "the first 20 answers: " in expected and "the first" not in said
    (saved,) = re.findall(rf"found there: grpo_{SMALL.name}, to step (\d+)", said)
    assert second - between - 1 <= int(saved) <= second
    assert said.splitlines()[-1] == expected.splitlines()[-1]
    assert " gained, " in said.splitlines()[-1]
    assert rows(drive) == rows(straight) and len(rows(drive)) == steps
    adapters = [
        load_file(folder / RUN / "model" / "adapter_model.safetensors")
        for folder in (straight, drive)
    ]
    for name, x in adapters[0].items():
        assert (x == adapters[1][name]).all()
