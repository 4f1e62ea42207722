import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from small_disk import disk_of

from helpers.training.checkpoints import CheckpointError, Checkpoints


def arrays(seed):
    rng = np.random.default_rng(seed)
    return {
        "['params']['layers']": jnp.asarray(rng.normal(size=(2, 3, 4)), jnp.float32),
        "['params']['half']": jnp.asarray(rng.normal(size=(5,)), jnp.bfloat16),
        "['optimizer'][0].count": jnp.asarray(seed, jnp.int32),
    }


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        assert x.dtype == theirs[name].dtype
        np.testing.assert_array_equal(np.asarray(x), np.asarray(theirs[name]))


def saved(folder, *steps, run=None):
    checkpoints = Checkpoints(folder)
    with checkpoints.locked():
        for step in steps:
            record = {"run": run or {}, "batches": {"count": step}}
            checkpoints.save(step, arrays(step), record)
    return checkpoints


def biggest_file(folder):
    files = (p for p in (folder / "arrays").rglob("*") if p.is_file())
    return max(files, key=os.path.getsize)


def test_what_is_saved_comes_back_bit_by_bit(tmp_path):
    checkpoints = saved(tmp_path, 7)
    restored, record = checkpoints.restore(arrays(0), {})
    assert_same(restored, arrays(7))
    assert record["step"] == 7 and record["batches"] == {"count": 7}


def test_the_newest_two_stay(tmp_path):
    checkpoints = saved(tmp_path, 1, 2, 3, 10)
    assert [path.name for path in checkpoints.all()] == ["00000003", "00000010"]


def flip_a_bit(folder):
    path = biggest_file(folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def remove_a_file(folder):
    path = biggest_file(folder)
    path.unlink()
    return path


def cut_the_record(folder):
    path = folder / "checkpoint.json"
    path.write_text(path.read_text()[:-20])
    return path


def change_a_digit_of_the_record(folder):
    path = folder / "checkpoint.json"
    text = path.read_text()
    assert '"count": 2' in text
    path.write_text(text.replace('"count": 2', '"count": 3'))
    return path


@pytest.mark.parametrize(
    "damage", [flip_a_bit, remove_a_file, cut_the_record, change_a_digit_of_the_record]
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path, damage):
    checkpoints = saved(tmp_path, 1, 2)
    path = damage(checkpoints.all()[-1])
    with pytest.warns(UserWarning, match=f"{path.name}.*Going back to the one before"):
        restored, record = checkpoints.restore(arrays(0), {})
    assert record["step"] == 1
    assert_same(restored, arrays(1))


def test_after_going_back_the_good_ones_stay_not_the_damaged_one(tmp_path):
    checkpoints = saved(tmp_path, 10, 20)
    flip_a_bit(checkpoints.all()[-1])
    with pytest.warns(UserWarning):
        checkpoints.restore(arrays(0), {})
    saved(tmp_path, 15)
    assert [path.name for path in checkpoints.all()] == ["00000010", "00000015"]


def test_what_another_process_cannot_read_is_not_taken_by_this_one(
    tmp_path, monkeypatch
):
    """Or one would go on from step 2 and the other from step 1."""
    saved(tmp_path, 1, 2)
    damages = iter([[None, "truncated"], [None, None]])
    monkeypatch.setattr(
        "helpers.training.checkpoints.gather", lambda damage: next(damages)
    )
    with pytest.warns(UserWarning, match="truncated.*Going back"):
        restored, record = Checkpoints(tmp_path).restore(arrays(0), {})
    assert record["step"] == 1
    assert_same(restored, arrays(1))


def test_when_all_are_damaged_nothing_is_loaded_or_deleted(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    for folder in checkpoints.all():
        flip_a_bit(folder)
    for _ in range(2):  # the second time too: no silent start from scratch
        with warnings.catch_warnings(), pytest.raises(CheckpointError, match="Delete"):
            warnings.simplefilter("ignore")
            checkpoints.restore(arrays(0), {})


def test_a_half_written_checkpoint_is_never_seen_and_is_cleaned_up(tmp_path):
    checkpoints = saved(tmp_path, 1)
    half = checkpoints.folder / "writing-00000002"
    (half / "arrays").mkdir(parents=True)
    (half / "checkpoint.json").write_text("{")
    assert checkpoints.restore(arrays(0), {})[1]["step"] == 1
    with checkpoints.locked():
        assert not half.exists()


def test_a_folder_of_another_run_is_refused_by_naming_what_differs(tmp_path):
    run = {"objective": "sft()", "model": "Transformer"}
    checkpoints = saved(tmp_path, 1, run=run)
    assert checkpoints.restore(arrays(0), run)[1]["step"] == 1
    other = run | {"objective": "policy_gradient(clip=(0.2, 0.28))"}
    with pytest.raises(
        CheckpointError, match=r"objective was sft\(\), here it is policy_gradient"
    ):
        checkpoints.restore(arrays(0), other)
    with pytest.raises(CheckpointError, match="another folder"):
        checkpoints.restore(arrays(0), run | {"['params']['extra']": "float32(3,)"})


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    """The other takes the kernel's lock of the same file, and imports no JAX."""
    program = (
        "import fcntl, os, sys, time\n"
        "file = open(sys.argv[1], 'a+')\n"
        "try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: sys.exit('locked')\n"
        "file.truncate(0)\n"
        "print(os.getpid(), end='', file=file, flush=True)\n"
        "print('locked', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, tmp_path / "run.lock"]
    with Checkpoints(tmp_path).locked():
        assert (tmp_path / "run.lock").read_text() == str(os.getpid())
        refused = subprocess.run(command, capture_output=True, text=True)
        assert refused.stderr == "locked\n"
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(CheckpointError, match=f"Process {holder.pid} .*another folder"):
        with Checkpoints(tmp_path).locked():
            pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with Checkpoints(tmp_path).locked():
        pass


def test_a_full_disk_is_an_error_and_the_last_checkpoint_stays(tmp_path):
    checkpoints = saved(tmp_path, 1)
    big = arrays(2) | {"['params']['layers']": jnp.asarray(np.random.rand(300, 300))}
    with disk_of(60_000):  # the write fails half-way
        with pytest.raises(CheckpointError, match="step 2.*File too large.*00000001"):
            checkpoints.save(2, big, {"run": {}})
    assert [path.name for path in checkpoints.all()] == ["00000001"]
    restored, _ = checkpoints.restore(arrays(0), {})
    assert_same(restored, arrays(1))
    checkpoints.save(2, arrays(2), {"run": {}})
    assert checkpoints.restore(arrays(0), {})[1]["step"] == 2


def test_it_works_inside_a_notebook_s_event_loop(tmp_path):
    async def cell():
        checkpoints = saved(tmp_path, 3)
        return checkpoints.restore(arrays(0), {})

    restored, _ = asyncio.run(cell())
    assert_same(restored, arrays(3))


def test_a_disk_without_locks_is_warned_of_and_used(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.warns(UserWarning, match="cannot be locked .*not supported"),
        Checkpoints(tmp_path).locked(),
    ):
        pass


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    checkpoints = Checkpoints(tmp_path / "file" / "run")
    with pytest.raises(OSError, match="run.*Not a directory.*COURSE_BUILD"):
        with checkpoints.locked():
            pass
