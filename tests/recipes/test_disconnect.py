"""A session that is cut off: the same cell goes on, and nothing is paid twice."""

import json
import pathlib
import re
import time

import disconnected_own
import forked
import pytest
from run_tables import without_times
from safetensors.numpy import load_file

from helpers.runtime.platform import NAME

RUNS = pathlib.Path("MyDrive", NAME, "runs")
SFT, GRPO = (RUNS / "own_laptop-real_*" / name for name in ("sft", "grpo"))


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Starts a machine of its own that has nothing but what lies on the drive.

    And compiled programs.
    """
    cache = tmp_path_factory.mktemp("cache")

    def start(drive):
        log = drive.with_suffix(".log")
        return forked.start(disconnected_own.main, drive, log=log, cache=cache), log

    return start


def finished(session, drive):
    """What a session says that runs to its end."""
    running, log = session(drive)
    running.join(timeout=600)
    assert running.exitcode == 0, log.read_text()
    return log.read_text()


def killed(session, drive, steps, run):
    """Kills a session once so many steps are logged; its output, and how many were."""
    running, log = session(drive)
    while len(rows(drive, run)) < steps:
        assert running.is_alive(), f"it ended by itself: {log.read_text()}"
        time.sleep(0.03)
    running.kill()
    running.join()
    return log.read_text(), len(rows(drive, run))


def rows(drive, run):
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


@pytest.mark.slow
def test_notebook_15_cut_off_twice_ends_with_the_same_adapters(tmp_path, session):
    """In SFT and in GRPO. And measures what it had measured no second time."""
    straight, drive = tmp_path / "a", tmp_path / "drive"
    expected = finished(session, straight)
    output, steps = killed(session, drive, 7, SFT)
    assert 7 <= steps < 20 and "measured before" not in output
    assert not list(drive.glob(str(SFT / "model")))
    output, steps = killed(session, drive, 5, GRPO)
    assert 5 <= steps < 9
    measured = re.findall(r"measured before: .*/(.*)\.json", output)
    assert measured == ["downloaded"]
    output = finished(session, drive)
    measured = re.findall(r"measured before: .*/(.*)\.json", output)
    assert measured == ["downloaded", "SFT"]
    (saved,) = re.findall(r"found there: \S*/grpo, to step (\d+)", output)
    assert steps - disconnected_own.SAVED - 1 <= int(saved) <= steps
    assert "measured before" not in expected
    scores = [
        re.findall(r"^(downloaded|SFT|GRPO): (.*)$", x, re.M)
        for x in (expected, output)
    ]
    assert len(scores[0]) == 3 and scores[0] == scores[1]
    for run, steps in (SFT, 20), (GRPO, 9):
        assert rows(drive, run) == rows(straight, run)
        assert len(rows(drive, run)) == steps
        assert_same_adapters(run, straight, drive)
    gained = [row["reward/right"] for row in rows(straight, GRPO)]
    assert len({*gained}) > 1, "there was something to learn from"
