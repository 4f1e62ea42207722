"""The log of a run: one row of numbers per step, sampled answers, one progress line.

`metrics.jsonl` has a line per step and `samples.jsonl` a line per sampled answer;
TensorBoard reads the event files beside them. Checkpoints remember how long the two
files were, so that a resumed run cuts off what the killed one wrote after them.
"""

import json
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary


class Logger(Protocol):
    """Receives the rows of a run, in process 0 only; an error of it ends training."""

    def start(self, step: int) -> None:
        """Called before the first row. Rows of later steps no longer count.

        A run that was killed goes on from a checkpoint and writes those rows again.

        Args:
          step: number of finished steps that the run goes on from.
        """

    def write(self, row: dict[str, float], samples: list[dict]) -> None:
        """Adds the row of one step and the answers that were sampled for it."""


class Callback:
    """Called by the trainer in every process; an error of it ends training.

    With callbacks the trainer waits for the numbers of each step before the next one,
    so that `trainer.model` is the model of that step.
    """

    def on_step(self, trainer: Any, row: dict) -> None:
        """After each step; `row` is its row of metrics, evaluation included."""


class MetricsLog:
    """Rows of a run, in memory and (with a folder) in files that grow.

    Args:
      folder: where `metrics.jsonl`, `samples.jsonl` and TensorBoard's event files
        go; None keeps the rows in memory only.
      position: lengths of the files in bytes, as `position()` gave them when the
        checkpoint was written; what comes after is cut off. {} starts empty.
      step: the step that was resumed from.
      loggers: further ones.
    """

    def __init__(self, folder: Path | None, position: dict, step: int, loggers=()):
        self.rows: list[dict] = []
        self.folder, self.loggers = folder, loggers
        self.board: TensorBoard | None = None
        self.ends: dict[Path, int] = {}  # lengths, after the last whole row
        if folder is not None:
            self.board = TensorBoard(folder)
            paths = folder / "metrics.jsonl", folder / "samples.jsonl"
            self.ends = {path: cut(path, position.get(path.name, 0)) for path in paths}
            self.rows = read(paths[0])
            self.board.start(step)
        for logger in loggers:
            logger.start(step)

    def write(self, row: dict, samples: list[dict]) -> None:
        """Adds the row of one step and the answers that were sampled for it.

        Raises:
          OSError: the disk is full.
        """
        for logger in self.loggers:
            logger.write(row, samples)
        try:
            if self.board:
                self.board.write(row, samples)
                self._append([row], [{"step": row["step"], **x} for x in samples])
        except OSError as error:
            raise OSError(
                f"The log of step {row['step']} could not be written to {self.folder}:"
                f" {error}. Free some space and run the same command again: it goes on"
                " from the last checkpoint."
            ) from error
        self.rows.append(row)

    def _append(self, *lines_of_files):
        ends = {}
        for (path, end), lines in zip(self.ends.items(), lines_of_files, strict=True):
            with path.open("ab") as file:
                if file.tell() > end:  # half a row, of a full disk or a Ctrl-C
                    file.truncate(end)
                file.writelines(f"{json.dumps(line)}\n".encode() for line in lines)
            ends[path] = path.stat().st_size
        self.ends = ends

    def position(self) -> dict[str, int]:
        """Lengths of the files in bytes, for a checkpoint."""
        return {path.name: end for path, end in self.ends.items()}


def read(path: Path) -> list[dict]:
    """The rows of a file of lines.

    Raises:
      ValueError: a line is damaged.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it.") from None


def cut(path: Path, length: int) -> int:
    """Shortens a file of lines to `length` bytes, or to the whole lines below it.

    Returns:
      Its length.
    """
    with path.open("ab+") as file:
        if file.tell() < length:  # a deleted log is no reason to lose the weights
            warnings.warn(f"{path} lacks rows that it had before.", stacklevel=2)
        file.seek(0)
        whole = file.read(length)
        return file.truncate(whole.rfind(b"\n") + 1)


class Progress:
    """Every ten seconds a line: step, loss, reward, tokens per second, time left.

    Args:
      show: False prints nothing.
    """

    def __init__(self, show: bool):
        self.show = show

    def start(self, step: int, steps: int) -> None:
        """Says how far the run is, and that the first step will take longer."""
        self.steps, self.first = steps, (0.0, 0)
        if step >= steps:
            self._print(f"step {step}: nothing to train, {steps} steps are done")
        else:
            self._print(f"step {step}/{steps} · compiling the update")

    def update(self, row: dict) -> None:
        """Shows a row of metrics: now and then, and always the last step."""
        now, step = time.monotonic(), row["step"]
        parts = [f"step {step}/{self.steps}", f"loss {row['loss']:.4f}"]
        if "reward" in row:
            parts.append(f"reward {row['reward']:.3f}")
        parts.append(f"{row['tokens_per_second']:,.0f} tokens/s")
        if self.first[1]:
            pace = (now - self.first[0]) / (step - self.first[1])
            left = round((self.steps - step) * pace)
            parts.append(f"{left // 60}:{left % 60:02d} left")
        else:  # it was compiled, which says nothing of the pace
            self.first = now, step
        if step == self.steps or now - self.last > 10:
            self._print(" · ".join(parts))

    def _print(self, text: str) -> None:
        self.last = time.monotonic()
        if self.show:
            print(text, flush=True)


class TensorBoard:
    """A `training.Logger` that writes event files into a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def start(self, step: int) -> None:
        """Begins a file of its own, which hides what others say of later steps."""
        # The plain event writer: SummaryWriter's thread dies silently on a full disk.
        self.board = EventsWriter(str(self.folder / "events"), f".{step:08d}")
        started = SessionLog(status=SessionLog.START)  # hides events from step + 1 on
        self.board.write_event(Event(step=step + 1, session_log=started))

    def write(self, row: dict[str, float], samples: list[dict]) -> None:
        """Writes the numbers of one step, to the disk at once."""
        values = [Summary.Value(tag=k, simple_value=v) for k, v in row.items()]
        settings = {"wall_time": time.time(), "summary": Summary(value=values)}
        self.board.write_event(Event(step=row["step"], **settings))
        self.board.flush()
