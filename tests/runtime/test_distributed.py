"""Two processes, or four, train like one process of eight simulated devices."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import simulated_devices
from run_tables import read_table

HERE = Path(__file__).parents[1]
# A simulated device waits in a collective with a thread of its own. With one for each
# device they ran out on a busy machine, and the devices waited for each other for ever.
THREADS = {"NPROC": "64", "PJRT_NPROC": "64"}
SECONDS = 900  # far more than it takes; then a process is taken for stuck


def start(script, *arguments, devices, log, **settings):
    return subprocess.Popen(
        [sys.executable, HERE / script, *map(str, arguments)],
        env=simulated_devices.environment(devices, **THREADS, **settings),
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )


def several(what, folder, script="distributed_toy.py", count=2):
    """Starts processes that find each other and have 8 devices; and their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    logs = [folder / f"{what}-{index}.log" for index in range(count)]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "programs")}
    return [
        start(script, what, port, index, folder, devices=8 // count, log=log, **cache)
        for index, log in enumerate(logs)
    ], logs


def finish(processes, logs):
    """Waits for all; one that is left over, for whatever reason, is killed."""
    try:
        for process in processes:
            process.wait(SECONDS)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, log in zip(processes, logs, strict=True):
        text = log.read_text()
        assert process.returncode == 0, "\n".join(x.read_text()[-4000:] for x in logs)
        assert text.strip().endswith("all the same")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of two processes that trained all lessons undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(*several("whole", folder, "distributed_run.py"))
    return folder


@pytest.mark.slow
def test_two_processes_are_one_and_their_checkpoints_go_on_anywhere(whole):
    """Losses to 1e-5, and from the checkpoint of step 3 on 4 and 8 devices."""
    log = whole / "alone.log"
    finish([start("distributed_run.py", "alone", whole, devices=8, log=log)], [log])


@pytest.mark.slow
def test_four_processes_go_on_where_two_stopped(whole):
    """To the same losses, 1e-5, and weights: what is compared are steps 4 to 6."""
    finish(*several("four", whole, count=4))


@pytest.mark.slow
def test_processes_of_cpus_keep_no_compiled_programs(whole):
    """Read back from disk, an update of several would wait for ever."""
    assert not list((whole / "programs").rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["toy", "tools"])
def test_what_is_written_is_written_once(whole, lesson):
    assert [row["step"] for row in read_table(whole / lesson)] == [1, 2, 3, 4, 5, 6]
    checkpoints = sorted((whole / lesson / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["00000003", "00000006"]
    for path in checkpoints:
        record = json.loads((path / "checkpoint.json").read_text())["record"]
        assert len(record["batches"]) == 2  # a data position per process
    assert len(list((whole / lesson).glob("events*"))) == 1


@pytest.mark.slow
def test_killed_processes_go_on_to_the_same_numbers(whole, tmp_path):
    """Process 1 is killed at step 5; process 0 ends within a minute, and says why."""
    processes, logs = several("killed", tmp_path)
    try:
        assert processes[1].wait(SECONDS) == -signal.SIGKILL, logs[1].read_text()
        assert processes[0].wait(60) not in (0, -signal.SIGKILL)
        assert "stopped sending heartbeats" in logs[0].read_text()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert len(read_table(tmp_path)) < 6
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["00000003"]
    finish(*several("killed", tmp_path))
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert read_table(tmp_path, name) == read_table(whole / "toy", name)
