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

from helpers.runtime.platform import NAME
from helpers.training.logging import is_timing

TESTS = pathlib.Path(__file__).parents[1]
SCRIPT, OWN = TESTS / "disconnected.py", TESTS / "disconnected_own.py"
RUNS = pathlib.Path("MyDrive", NAME, "runs")
RUN = RUNS / f"grpo_{SMALL.name}"
OWN_SFT, OWN_GRPO = (RUNS / "own_laptop-real_*" / name for name in ("sft", "grpo"))


def session(drive, cache, script=SCRIPT):
    """A machine of its own that has nothing but what lies on the drive."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, str(script), str(drive)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finished(drive, cache, script=SCRIPT):
    """What a session says that runs to its end."""
    with session(drive, cache, script) as running:
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


def rows(drive, run=RUN):
    """The logged steps, without what the clock says."""
    logs = list(drive.glob(str(run / "metrics.jsonl")))
    lines = logs[0].read_text().split("\n")[:-1] if logs else []
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


def cut_off_in(run, steps, drive, cache):
    """Kills a session of notebook 15 in a stage; what it said, and the steps logged."""
    with session(drive, cache, OWN) as running:
        while len(rows(drive, run)) < steps:
            assert running.poll() is None, "it ended by itself"
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        said, _ = running.communicate()
    return said, len(rows(drive, run))


@pytest.mark.slow
def test_notebook_15_cut_off_in_sft_and_in_grpo_ends_with_the_same_adapters(tmp_path):
    """And measures what it had measured, the baseline too, no second time."""
    straight, drive, cache = (tmp_path / name for name in ("a", "drive", "cache"))
    expected = finished(straight, cache, OWN)
    said, steps = cut_off_in(OWN_SFT, 7, drive, cache)
    assert 7 <= steps < 20 and "measured before" not in said
    assert not list(drive.glob(str(OWN_SFT / "model")))
    said, steps = cut_off_in(OWN_GRPO, 5, drive, cache)
    assert 5 <= steps < 9
    measured = re.findall(r"measured before: .*/(.*)\.json", said)
    assert measured == ["as it came"]
    said = finished(drive, cache, OWN)
    measured = re.findall(r"measured before: .*/(.*)\.json", said)
    assert measured == ["as it came", "SFT"]
    assert "measured before" not in expected
    scores = [
        re.findall(r"^(as it came|SFT|GRPO): (.*)$", x, re.M) for x in (expected, said)
    ]
    assert len(scores[0]) == 3 and scores[0] == scores[1]
    for run, steps in (OWN_SFT, 20), (OWN_GRPO, 9):
        assert rows(drive, run) == rows(straight, run)
        assert len(rows(drive, run)) == steps
        file = str(run / "model" / "adapter_model.safetensors")
        both = [load_file(*folder.glob(file)) for folder in (straight, drive)]
        assert both[0].keys() == both[1].keys() and len(both[0]) > 0
        for name, x in both[0].items():
            assert (x == both[1][name]).all()
    gained = [row["reward/right"] for row in rows(straight, OWN_GRPO)]
    assert len({*gained}) > 1, "there was something to learn from"
