"""Two and four processes train like one; one that is gone stops the others.

Four launches of `distributed_run.py`, each on 8 simulated devices in all. What they
left is compared here, file by file: every lesson fresh in one, two and four processes,
and gone on with from step 3 in another number of processes.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from run_tables import read_table
from safetensors.numpy import load_file

HERE = Path(__file__).parents[1]
# A simulated device waits in a collective with a thread of its own. With one for each
# device they ran out on a busy machine, and the devices waited for each other for ever.
THREADS = {"NPROC": "64", "PJRT_NPROC": "64"}
SECONDS = 900  # far more than it takes; then a process is taken for stuck
LESSONS = ("sft", "grpo", "tools", "distillation")
SAME = {"loss", "tokens", "reward", "length", "tied_groups", "turns", "calls"}

pytestmark = pytest.mark.slow


def start(what, folder, count):
    """Processes that find each other, and their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    devices = f"--xla_force_host_platform_device_count={8 // count}"
    paths = {
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {devices}",
        "JAX_PLATFORMS": "cpu",
    }
    paths |= {"PYTHONPATH": str(HERE.parent)} | THREADS
    logs = [folder / f"{what}-{index}.log" for index in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, HERE / "distributed_run.py", what, folder]
            + ([] if count == 1 else list(map(str, (port, count, index)))),
            env=os.environ | paths,
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
        )
        for index, log in enumerate(logs)
    ]
    return processes, logs


def said(logs):
    return "\n".join(log.read_text()[-4000:] for log in logs)


def finish(processes, logs):
    """Waits for all; one that is left over, for whatever reason, is killed."""
    try:
        codes = [process.wait(SECONDS) for process in processes]
    finally:
        end(processes)
    assert codes == [0] * len(codes), said(logs)


def end(processes):
    for process in processes:
        process.kill()
        process.wait()


def seconds_left(process, logs):
    """How long a process lives on that waits for another; it must say for which."""
    since = time.monotonic()
    code = process.wait(SECONDS)
    assert code not in (0, -signal.SIGKILL), said(logs)
    assert "stopped sending heartbeats" in logs[0].read_text(), said(logs)
    return time.monotonic() - since


def copied(run, place):
    """A run as it was after step 3, somewhere else."""
    shutil.copytree(run, place)
    shutil.rmtree(place / "checkpoints" / "00000006", ignore_errors=True)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two processes: every lesson, and GRPO in which process 1 is killed at step 5."""
    folder = tmp_path_factory.mktemp("two")
    processes, logs = start("whole,checks,killed", folder, 2)
    try:
        assert processes[1].wait(SECONDS) == -signal.SIGKILL, said(logs)
        left = seconds_left(processes[0], logs)
    finally:
        end(processes)
    assert all("checks: done" in log.read_text() for log in logs), said(logs)
    (folder / "left.json").write_text(json.dumps(left))
    return folder


@pytest.fixture(scope="module")
def four(two, tmp_path_factory):
    """Four: every lesson, and what two left after step 3, or where one was killed."""
    folder = tmp_path_factory.mktemp("four")
    for name in ("sft", "tools", "distillation"):
        copied(two / "whole" / name, folder / "resumed" / f"{name}-of-two")
    copied(two / "killed", folder / "resumed" / "grpo-killed")
    finish(*start("whole,resumed", folder, 4))
    return folder


@pytest.fixture(scope="module")
def one(two, tmp_path_factory):
    """One: every lesson, and what two left, on 1, 4 and 8 devices."""
    folder = tmp_path_factory.mktemp("one")
    for name in LESSONS:
        copied(two / "whole" / name, folder / "resumed" / f"{name}-of-two")
    finish(*start("whole,resumed", folder, 1))
    return folder


def assert_as(one, run, count):
    """A run of several processes ended as that of one did."""
    name = run.name.split("-")[0]
    tables = [json.loads(path.read_text()) for path in sorted(run.glob("table-*"))]
    assert len(tables) == count and all(table == tables[0] for table in tables)
    expected = json.loads((one / "whole" / name / "table-0.json").read_text())
    assert [row["step"] for row in tables[0]] == [1, 2, 3, 4, 5, 6], run
    for row, other in zip(tables[0], expected, strict=True):
        for key in row.keys() & SAME:
            np.testing.assert_allclose(
                row[key], other[key], rtol=1e-5, atol=1e-7, err_msg=f"{run} {key}"
            )
    ours, theirs = (
        load_file(place / "model" / "model.safetensors")
        for place in (run, one / "whole" / name)
    )
    assert ours.keys() == theirs.keys()
    for key, x in ours.items():
        np.testing.assert_allclose(x, theirs[key], rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", LESSONS)
def test_two_and_four_processes_are_one(one, two, four, name):
    assert_as(one, two / "whole" / name, 2)
    assert_as(one, four / "whole" / name, 4)


def test_tools_were_called_in_some_turns_of_some_processes(one):
    rows = json.loads((one / "whole" / "tools" / "table-0.json").read_text())
    assert all(0 < row["calls"] < row["turns"] < 2 for row in rows)


@pytest.mark.parametrize("name", LESSONS)
def test_what_two_left_one_goes_on_with(one, name):
    run = one / "resumed" / f"{name}-of-two"
    (run / "table-1.json").unlink()  # of the two
    assert_as(one, run, 1)


def test_what_two_left_four_go_on_with_also_after_a_kill(one, four):
    for run in (four / "resumed").iterdir():
        assert_as(one, run, 4)


def test_what_four_or_one_left_two_go_on_with(one, two, four, tmp_path):
    """And what two left where one was killed, to the very numbers; then one hangs."""
    for source, names in ((four, LESSONS), (one, ("grpo", "tools"))):
        for name in names:
            place = tmp_path / "resumed" / f"{name}-of-{source.name[:-1]}"
            copied(source / "whole" / name, place)
            for table in place.glob("table-*"):
                table.unlink()
    copied(two / "killed", tmp_path / "resumed" / "grpo-killed")
    processes, logs = start("resumed,stopped", tmp_path, 2)
    try:
        while not all("resumed: done" in log.read_text() for log in logs):
            assert processes[0].poll() is None, said(logs)
            time.sleep(0.2)
        assert seconds_left(processes[0], logs) < 60
    finally:
        end(processes)
    for run in (tmp_path / "resumed").iterdir():
        assert_as(one, run, 2)
    for name in ("metrics.jsonl", "samples.jsonl"):
        ours = read_table(tmp_path / "resumed" / "grpo-killed", name)
        assert ours == read_table(two / "whole" / "grpo", name)


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_is_written_is_written_once(two, lesson):
    run = two / "whole" / lesson
    assert [row["step"] for row in read_table(run)] == [1, 2, 3, 4, 5, 6]
    checkpoints = sorted((run / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["00000003", "00000006"]
    for path in checkpoints:
        record = json.loads((path / "checkpoint.json").read_text())["record"]
        assert len(record["batches"]) == 2  # a data position per process
    assert len(list(run.glob("events*"))) == 1


def test_a_killed_process_stops_the_other_within_a_minute(two):
    """It is told of it, and nothing that was half done is there."""
    assert json.loads((two / "left.json").read_text()) < 60
    assert len(read_table(two / "killed")) < 6
    assert [p.name for p in (two / "killed" / "checkpoints").iterdir()] == ["00000003"]
