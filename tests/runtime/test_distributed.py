"""Two processes train like one process of eight simulated devices."""

import functools
import json
import signal
import socket

import distributed_run
import distributed_toy
import forked
import pytest
import simulated_devices
from run_tables import read_table

# A simulated device waits in a collective with a thread of its own. With one for each
# device they ran out on a busy machine, and the devices waited for each other for ever.
THREADS = {"NPROC": "64", "PJRT_NPROC": "64"}
SECONDS = 900  # far more than it takes; then a process is taken for stuck


def start(work, *arguments, devices, log, **settings):
    flags = simulated_devices.environment(devices)["XLA_FLAGS"]
    return forked.start(
        work, *arguments, log=log, XLA_FLAGS=flags, **THREADS, **settings
    )


def pair(work, folder):
    """Starts two processes that find each other and have 8 devices; and their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    logs = [folder / f"{work.__name__}-{index}.log" for index in range(2)]
    begin = functools.partial(start, devices=4, cache=folder / "programs")
    return [
        begin(work, port, index, folder, log=log) for index, log in enumerate(logs)
    ], logs


def finish(processes, logs):
    """Waits for all; one that is left over, for whatever reason, is killed."""
    try:
        for process in processes:
            process.join(SECONDS)
    finally:
        kill(processes)
    texts = [log.read_text()[-4000:] for log in logs]
    assert [process.exitcode for process in processes] == [0] * len(logs), texts


def kill(processes):
    for process in processes:
        process.kill()
        process.join()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of two processes that trained all lessons undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(*pair(distributed_run.whole, folder))
    return folder


@pytest.mark.slow
def test_two_processes_are_one_and_their_checkpoints_go_on_anywhere(whole):
    """Losses to 1e-5, and from the checkpoint of step 3 on 4 and 8 devices."""
    log = whole / "alone.log"
    finish([start(distributed_run.alone, whole, devices=8, log=log)], [log])


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
    """Process 1 is killed at step 5; process 0 ends within a minute, and says why.

    Those that go on also go on where one process, of one device, stopped: to the same
    losses, 1e-5, and weights.
    """
    processes, logs = pair(distributed_toy.killed, tmp_path)
    try:
        processes[1].join(SECONDS)
        assert processes[1].exitcode == -signal.SIGKILL, logs[1].read_text()
        processes[0].join(60)
        assert processes[0].exitcode not in (None, 0, -signal.SIGKILL)
        assert "stopped sending heartbeats" in logs[0].read_text()
    finally:
        kill(processes)
    assert len(read_table(tmp_path)) < 6
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["00000003"]
    one = distributed_toy.train(distributed_toy.toy, tmp_path / "one", devices=1)
    (tmp_path / "one.json").write_text(json.dumps(one))
    finish(*pair(distributed_toy.resumed, tmp_path))
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert read_table(tmp_path, name) == read_table(whole / "toy", name)
