"""Checkpoints by Orbax: written to the side, renamed when whole, verified when read.

A run folder looks like this; the newest two checkpoints are kept:

    checkpoints/00000020/arrays/          parameters and optimizer state (Orbax)
    checkpoints/00000020/checkpoint.json  step, data position, checksums of the files
    run.lock                              held by the process that trains here
    began.txt                             checksum of the weights the run began with
    earlier-1/                            what was here when a run began afresh

Orbax's CheckpointManager could keep the newest and rename, two lines of this file, but
not within the promises made here (tried with Orbax 0.12.8). It reads what it finds: of
40 checkpoints with one flipped bit it returned 40 with wrong numbers, and it renames by
itself, so that checksums of the written files cannot be in place before that. A step
below the newest, as after going back from a damaged one, it does not save, and says so
by returning False. What a full disk cut off it leaves lying until the next start.
"""

import contextlib
import fcntl
import itertools
import logging
import os
import re
import shutil
import warnings
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from helpers.runtime.distributed import gather, on_first, together
from helpers.runtime.platform import numbered, require_writable
from helpers.runtime.ranges import require_count
from helpers.runtime.run_identity import REMEDY, differences, listed
from helpers.training import checkpoint_record
from helpers.training.checkpoint_record import FORMAT, remove

# Every save writes to a folder of its own: threads of one that failed may write on.
TRIES = itertools.count(1)
# What a run leaves in its folder, but for the lock.
OURS = "checkpoints began.txt metrics.jsonl samples.jsonl events.out.tfevents.*".split()


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, or none can be read."""


class Checkpoints:
    """The checkpoints of one run folder.

    Args:
      folder: the run folder, which is created.
      keep: how many of the newest checkpoints stay.
    Raises:
      ValueError: keep is no whole number from 1.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 2):
        require_count("keep", keep)  # the newest always stays
        if "://" in os.fspath(folder):
            raise ValueError(
                f"{folder} is no folder on a disk. Train in one, and copy checkpoints"
                " to a bucket in a Callback's on_save."
            )
        self.run = Path(folder).absolute()
        self.folder = self.run / "checkpoints"
        self.keep = keep
        self.orbax = ocp.Checkpointer(ocp.StandardCheckpointHandler())

    @contextlib.contextmanager
    def locked(self):
        """Holds the run folder, for all processes of this run.

        Raises:
          CheckpointError: another run trains in this folder, not all processes of
            this one see it, or nothing can be written there.
        """
        with contextlib.ExitStack() as stack:
            lock = self._lock()
            on_first(lambda: self._enter(stack, lock))
            if not all(gather((self.run / "run.lock").exists())):
                raise CheckpointError(
                    f"Not every process sees {self.run}. Choose a folder on a disk that"
                    " all hosts share."
                )
            yield

    def _enter(self, stack, lock):
        """Takes the lock; why it cannot be had is told."""
        try:
            stack.enter_context(lock)
        except OSError as error:
            raise CheckpointError(str(error)) from None

    @contextlib.contextmanager
    def _lock(self):
        """Holds the run folder; the kernel lets go of it when the process dies."""
        require_writable(self.folder)
        with open(self.run / "run.lock", "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise CheckpointError(
                    f"Process {file.read() or '?'} is already training in {self.run}."
                    " Wait for it, stop it, or give this run another folder."
                ) from None
            except OSError as error:  # a disk without locks, as some that are shared
                warnings.warn(
                    f"{self.run} cannot be locked ({error}): see to it yourself that no"
                    " other process trains there at the same time.",
                    stacklevel=7,
                )
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._clean_up()
            yield

    def _clean_up(self):
        """Removes what a kill or a full disk left half written, or half removed."""
        whole = self.all()
        half = [path for path in numbered(self.folder) if path not in whole]
        remove([*half, *self.folder.glob("writing-*")])

    def set_aside(self) -> None:
        """Moves the run that is here, if any, into a folder of its own: earlier-1, ….

        Call it while the folder is `locked`. Files that are not a run's stay.

        """
        on_first(self._set_aside)

    def _set_aside(self):
        found = [path for name in OURS for path in sorted(self.run.glob(name))]
        if self.all() or found != [self.folder]:
            names = (f"earlier-{number}" for number in itertools.count(1))
            aside = next(x for x in map(self.run.joinpath, names) if not x.exists())
            aside.mkdir()
            for path in found:
                path.rename(aside / path.name)
            self.folder.mkdir()

    def all(self) -> list[Path]:
        """Folders of the checkpoints, oldest first."""
        return numbered(self.folder)

    def save(self, step: int, arrays: dict[str, jax.Array], record: dict) -> Path:
        """Writes a checkpoint, then removes those older than the newest `keep`.

        Args:
          step: number of finished steps.
          arrays: parameters and optimizer state by name, sharded in any way.
          record: what JSON can hold: data position, lengths of the logs, ….

        Raises:
          CheckpointError: the disk is full or not writable.
        """
        final = self.folder / f"{step:08d}"
        side = self.folder / f"writing-{step:08d}-{next(TRIES)}"
        try:
            with quiet_orbax():
                self.orbax.save(side / "arrays", args=ocp.args.StandardSave(arrays))
            on_first(lambda: self._finish(side, final, {"step": step, **record}))
        except (OSError, ValueError) as error:
            raise CheckpointError(self._said(error, step, side, arrays)) from None
        on_first(lambda: remove(self.all()[: -self.keep]))
        return final

    def _finish(self, side, final, record):
        checkpoint_record.finish(side, record)
        if side != final:
            if final.exists():  # of this step, by a save that was cut off behind this
                remove([final])
            side.rename(final)

    def _said(self, error, step, side, arrays):
        """What stopped a checkpoint, and what to do; room is made for the next try."""
        text = f"The checkpoint of step {step} could not be written: "
        text += f"{_cause(error)}."
        checkpoint_record.remove_while_written(side)
        needed = sum(x.nbytes for x in arrays.values()) / 1e6
        free = shutil.disk_usage(self.folder).free / 1e6
        return (
            f"{text} It takes up to {needed:.1f} MB, {free:.1f} MB are free in"
            f" {self.folder}. Make room there and run the same command again: it goes"
            f" on from {self.newest()}."
        )

    def newest(self) -> str:
        """The newest checkpoint in words, for messages."""
        found = self.all()
        return str(found[-1]) if found else "the start, no checkpoint is there"

    def restore(self, arrays: dict, expected: dict) -> tuple[dict, dict] | None:
        """Reads the newest whole checkpoint.

        Args:
          arrays: by name, arrays or `jax.ShapeDtypeStruct`s with the shapes, dtypes
            and shardings to restore into; the devices may differ from those of the
            run that wrote it.
          expected: what the record must say under "run", item by item.

        Returns:
          The arrays and the record, or None when there is no checkpoint.
        Warns:
          UserWarning: a checkpoint is damaged; or there is none, and the run that began
          here began with other weights.

        Raises:
          CheckpointError: all are damaged, or the folder belongs to another run or
            to another version of the course.
        """
        damaged = []
        for folder in reversed(self.all()):
            record, damage = checkpoint_record.read_record(folder)
            # What one process cannot read, none of them may take.
            if damage := next(filter(None, gather(damage)), None):
                warnings.warn(
                    f"Checkpoint {folder} is damaged ({damage}). Going back to the"
                    " one before it.",
                    stacklevel=2,
                )
                damaged.append(folder)
                continue
            together(lambda record=record: self._require(record, expected))
            target = jax.tree.map(ocp.utils.to_shape_dtype_struct, arrays)
            restored = self.orbax.restore(
                folder / "arrays", args=ocp.args.StandardRestore(target)
            )
            on_first(lambda: remove(damaged))  # or they would count as the newest ones
            return restored, record
        if damaged:
            raise CheckpointError(
                f"Every checkpoint in {self.folder} is damaged. Delete {self.run} or"
                " pass fresh=True to the Trainer, which moves it aside, to start this"
                " run again from the beginning."
            )
        on_first(lambda: self._begin(expected.get("starting weights", "")))
        return None

    def _begin(self, weights: str) -> None:
        """Notes what a run begins with; an interrupted one may have trained it."""
        note = self.run / "began.txt"
        if note.is_file() and note.read_text() != weights:
            warnings.warn(
                f"A run began in {self.run} with other weights, and stopped before its"
                " first checkpoint. If this is the model that it trained, load it"
                " again: this run starts from what it is now.",
                stacklevel=5,
            )
        note.write_text(weights)

    def _require(self, record: dict, expected: dict) -> None:
        if record.get("format") != FORMAT:
            age = "an earlier" if record.get("format", 1) < FORMAT else "a later"
            raise CheckpointError(
                f"The run in {self.run} was trained with {age} version of the course,"
                f" and cannot be compared with this one. {REMEDY} To train it on, take"
                " that version again."
            )
        if changed := differences(record["run"], expected):
            hint = ""
            if changed[0].startswith("starting weights"):
                hint = " Or was the model trained since it was loaded? Load it again."
            raise CheckpointError(
                f"{self.run} holds another run: {listed(changed)}. {REMEDY}{hint}"
            )


def _cause(error: Exception) -> str:
    """What the operating system said, from an OSError or from Orbax's long message."""
    code = re.search(r"os_error_code='(\d+)'", str(error))
    number = int(code[1]) if code else getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


@contextlib.contextmanager
def quiet_orbax():
    """Keeps Orbax from logging, with a page of traceback, what it then raises."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
