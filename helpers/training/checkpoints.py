"""Checkpoints by Orbax: written to the side, renamed when complete, verified when read.

A run folder looks like this; the newest two checkpoints stay:

    checkpoints/00000020/arrays/          parameters and optimizer state (Orbax)
    checkpoints/00000020/checkpoint.json  step, data position, checksums of the files
    run.lock                              locked by the process that trains here
    earlier-1/                            what was here when a run began afresh

Orbax's CheckpointManager was tried (Orbax 0.12.8) and does not verify what it reads:
of 40 checkpoints with one flipped bit it restored 40 with wrong numbers. It also
renames by itself, before checksums of the written files could be added.
"""

import contextlib
import fcntl
import itertools
import json
import logging
import os
import re
import shutil
import warnings
import zlib
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from helpers.runtime.distributed import gather, on_first, together
from helpers.runtime.platform import numbered, require_writable
from helpers.runtime.run_identity import REMEDY, differences

NAME = "checkpoint.json"
KEEP = 2  # checkpoints of a run; the newest may be damaged
# Every save writes to a folder of its own: threads of one that failed may write on.
TRIES = itertools.count(1)
# What a run leaves in its folder, except for the lock.
FILES = "checkpoints metrics.jsonl samples.jsonl events.out.tfevents.*".split()


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, or none can be read."""


class Checkpoints:
    """The checkpoints of one run folder.

    Args:
      folder: the run folder, which is created.
    Raises:
      ValueError: the folder is not on a disk.
    """

    def __init__(self, folder: str | os.PathLike):
        if "://" in os.fspath(folder):
            raise ValueError(f"{folder} is no folder on a disk: train in one.")
        self.run = Path(folder).absolute()
        self.folder = self.run / "checkpoints"
        self.orbax = ocp.Checkpointer(ocp.StandardCheckpointHandler())

    @contextlib.contextmanager
    def locked(self):
        """Locks the run folder for all processes of this run, and cleans it up.

        Raises:
          CheckpointError: another run trains in this folder, or not all processes of
            this one see it.
          OSError: nothing can be written there.
        """
        with contextlib.ExitStack() as stack:
            on_first(lambda: self._lock(stack))
            if not all(gather((self.run / "run.lock").exists())):
                raise CheckpointError(f"{self.run} is on no disk that all hosts share.")
            yield

    def _lock(self, stack):
        """Takes the lock, which the kernel releases when this process dies."""
        require_writable(self.folder)
        file = stack.enter_context(open(self.run / "run.lock", "a+", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise CheckpointError(
                f"Process {file.read()} is already training in {self.run}: stop it, or"
                " give this run another folder."
            ) from None
        except OSError as error:  # a disk without locks, as some that are shared
            text = f"{self.run} cannot be locked ({error}): train there once at a time."
            warnings.warn(text, stacklevel=6)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        for path in self.folder.glob("writing-*"):  # of a kill or a full disk
            shutil.rmtree(path)

    def set_aside(self) -> None:
        """Moves the run that is here, if any, into a folder of its own: earlier-1, ….

        Call it while the folder is `locked`. Files that are not a run's stay.
        """
        paths = [path for name in FILES for path in sorted(self.run.glob(name))]
        if self.all() or paths != [self.folder]:
            names = (f"earlier-{number}" for number in itertools.count(1))
            aside = next(x for x in map(self.run.joinpath, names) if not x.exists())
            aside.mkdir()
            for path in paths:
                path.rename(aside / path.name)
            self.folder.mkdir()

    def all(self) -> list[Path]:
        """Folders of the checkpoints, oldest first."""
        return numbered(self.folder)

    def newest(self) -> str:
        """The newest checkpoint in words, for messages."""
        folders = self.all()
        return str(folders[-1]) if folders else "the start, no checkpoint is there"

    def save(self, step: int, arrays: dict[str, jax.Array], record: dict) -> Path:
        """Writes a checkpoint, then removes those older than the newest `KEEP`.

        Args:
          step: number of finished steps.
          arrays: parameters and optimizer state by name, sharded in any way.
          record: what JSON can hold: data position, lengths of the logs, ….

        Raises:
          CheckpointError: the disk is full or not writable.
        """
        final = self.folder / f"{step:08d}"
        side = self.folder / f"writing-{step:08d}-{next(TRIES)}"
        logger = logging.getLogger("absl")
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # Orbax logs what it raises, with tracebacks
        try:
            self.orbax.save(side / "arrays", args=ocp.args.StandardSave(arrays))
            on_first(lambda: self._finish(side, final, {"step": step, **record}))
        except (OSError, ValueError) as error:
            # Threads of Orbax may write on; the next start removes what they leave.
            shutil.rmtree(side, ignore_errors=True)
            raise CheckpointError(
                f"The checkpoint of step {step} could not be written to {self.folder}:"
                f" {_cause(error)}. Make room there and run the same command again: it"
                f" goes on from {self.newest()}."
            ) from None
        finally:
            logger.setLevel(level)
        on_first(lambda: remove(self.all()[:-KEEP]))
        return final

    def _finish(self, side, final, record):
        record |= {"files": checksums(side)}
        crc = zlib.crc32(json.dumps(record).encode())
        text = json.dumps({"checksum": crc, "record": record}, indent=1)
        (side / NAME).write_text(text)
        if final.exists():  # of this step, by a save that was interrupted after this
            remove([final])
        side.rename(final)

    def restore(self, arrays: dict, expected: dict) -> tuple[dict, dict]:
        """Reads the newest checkpoint that is not damaged.

        Args:
          arrays: by name, arrays or `jax.ShapeDtypeStruct`s with the shapes, dtypes
            and shardings to restore into; the devices may differ from those of the
            run that wrote it.
          expected: what the record must say under "run", item by item.

        Returns:
          The arrays and the record; both are empty when there is no checkpoint.
        Warns:
          UserWarning: a checkpoint is damaged.

        Raises:
          CheckpointError: all are damaged, or the folder belongs to another run or
            to another version of the course.
        """
        damaged = []
        for folder in reversed(self.all()):
            record, damage = read_record(folder)
            # What one process cannot read, none of them may take.
            if damage := next(filter(None, gather(damage)), None):
                warnings.warn(
                    f"Checkpoint {folder} is damaged ({damage}). Going back to the"
                    " one before it.",
                    stacklevel=2,
                )
                damaged.append(folder)
                continue
            together(lambda record=record: self._require_same_run(record, expected))
            target = jax.tree.map(ocp.utils.to_shape_dtype_struct, arrays)
            restored = self.orbax.restore(
                folder / "arrays", args=ocp.args.StandardRestore(target)
            )
            on_first(lambda: remove(damaged))  # or they would count as the newest ones
            return restored, record
        if damaged:
            raise CheckpointError(
                f"Every checkpoint in {self.folder} is damaged. Delete {self.run}, or"
                " pass fresh=True to the Trainer to move it aside and start again."
            )
        return {}, {}

    def _require_same_run(self, record: dict, expected: dict) -> None:
        if changed := differences(record["run"], expected):
            raise CheckpointError(
                f"{self.run} holds another run: {changed}. {REMEDY} If the model was"
                " trained since it was loaded, load it again."
            )


def read_record(folder: Path) -> tuple[dict, str | None]:
    """The record of a checkpoint, and what is damaged in the folder (None: nothing)."""
    try:
        content = json.loads((folder / NAME).read_text())
        record = content["record"]
        if content["checksum"] != zlib.crc32(json.dumps(record).encode()):
            raise ValueError("its checksum is wrong")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {}, f"{folder / NAME}: {error!r}"
    present = checksums(folder)
    for name, crc in record["files"].items():
        if present.get(name) != crc:
            return {}, f"{folder / name} is not what was written"
    return record, None


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every file below a folder, by its path relative to the folder."""
    crcs = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        crc = 0
        with path.open("rb") as file:
            while piece := file.read(1 << 24):
                crc = zlib.crc32(piece, crc)
        crcs[str(path.relative_to(folder))] = crc
    return crcs


def remove(folders: list[Path]) -> None:
    """Removes folders, their record first: without it, half a folder is not read."""
    for folder in folders:
        (folder / NAME).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _cause(error: Exception) -> str:
    """The operating system's text, from an OSError or from Orbax's long message."""
    code = re.search(r"os_error_code='(\d+)'", str(error))
    number = int(code[1]) if code else getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)
