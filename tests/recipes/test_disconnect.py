"""A session that is cut off: the same cell goes on, and nothing is paid twice."""

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
from run_tables import without_times
from safetensors.numpy import load_file

from helpers.runtime.platform import NAME

TESTS = pathlib.Path(__file__).parents[1]
GRPO, CUSTOM = TESTS / "disconnected.py", TESTS / "disconnected_own.py"
RUNS = pathlib.Path("MyDrive", NAME, "runs")
RUN = RUNS / f"grpo_{SMALL.name}"
CUSTOM_SFT, CUSTOM_GRPO = (
    RUNS / "own_laptop-real_*" / name for name in ("sft", "grpo")
)


def session(drive, cache, script=GRPO):
    """A machine of its own that has nothing but what lies on the drive."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, str(script), str(drive)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finished(drive, cache, script=GRPO):
    """What a session says that runs to its end."""
    with session(drive, cache, script) as running:
        output, _ = running.communicate(timeout=600)
        assert running.returncode == 0
    return output


def killed(drive, cache, steps, run=RUN, script=GRPO):
    """Kills a session once so many steps are logged; its output, and how many were."""
    with session(drive, cache, script) as running:
        while len(rows(drive, run)) < steps:
            assert running.poll() is None, "it ended by itself"
            time.sleep(0.03)
        running.send_signal(signal.SIGKILL)
        output, _ = running.communicate()
    return output, len(rows(drive, run))


def rows(drive, run=RUN):
    """The logged steps, without what the clock says."""
    logs = list(drive.glob(str(run / "metrics.jsonl")))
    lines = logs[0].read_text().split("\n")[:-1] if logs else []
    return without_times(map(json.loads, lines))


def assert_same_adapters(run, *drives):
    """Bit by bit."""
    file = str(run / "model" / "adapter_model.safetensors")
    one, other = (load_file(*drive.glob(file)) for drive in drives)
    assert one.keys() == other.keys() and one
    for name, x in one.items():
        assert (x == other[name]).all()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled programs, of which both notebooks have many in common."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
def test_a_disconnect_costs_a_tenth_and_changes_nothing(tmp_path, cache):
    straight, drive = tmp_path / "a", tmp_path / "drive"
    expected = finished(straight, cache)
    between, steps = SMALL.rl.save_every, SMALL.rl.steps
    _, done = killed(drive, cache, between + 3)
    assert done < steps
    output = finished(drive, cache)
    assert "measured before" in output and "measured before" not in expected
    assert "the first 20 answers: " in expected and "the first" not in output
    (saved,) = re.findall(rf"found there: grpo_{SMALL.name}, to step (\d+)", output)
    assert done - between - 1 <= int(saved) <= done
    assert output.splitlines()[-1] == expected.splitlines()[-1]
    assert " gained, " in output.splitlines()[-1]
    assert rows(drive) == rows(straight) and len(rows(drive)) == steps
    assert_same_adapters(RUN, straight, drive)


@pytest.mark.slow
def test_notebook_15_cut_off_twice_ends_with_the_same_adapters(tmp_path, cache):
    """In SFT and in GRPO. And measures what it had measured no second time."""
    straight, drive = tmp_path / "a", tmp_path / "drive"
    expected = finished(straight, cache, CUSTOM)
    output, steps = killed(drive, cache, 7, CUSTOM_SFT, CUSTOM)
    assert 7 <= steps < 20 and "measured before" not in output
    assert not list(drive.glob(str(CUSTOM_SFT / "model")))
    output, steps = killed(drive, cache, 5, CUSTOM_GRPO, CUSTOM)
    assert 5 <= steps < 9
    measured = re.findall(r"measured before: .*/(.*)\.json", output)
    assert measured == ["downloaded"]
    output = finished(drive, cache, CUSTOM)
    measured = re.findall(r"measured before: .*/(.*)\.json", output)
    assert measured == ["downloaded", "SFT"]
    assert "measured before" not in expected
    scores = [
        re.findall(r"^(downloaded|SFT|GRPO): (.*)$", x, re.M)
        for x in (expected, output)
    ]
    assert len(scores[0]) == 3 and scores[0] == scores[1]
    for run, steps in (CUSTOM_SFT, 20), (CUSTOM_GRPO, 9):
        assert rows(drive, run) == rows(straight, run)
        assert len(rows(drive, run)) == steps
        assert_same_adapters(run, straight, drive)
    gained = [row["reward/right"] for row in rows(straight, CUSTOM_GRPO)]
    assert len({*gained}) > 1, "there was something to learn from"
