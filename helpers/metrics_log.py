"""The log of a run: one row of numbers per step, sampled answers, one progress line.

`metrics.jsonl` has a line per step and `samples.jsonl` a line per sampled answer;
TensorBoard reads the event files beside them. Checkpoints remember how long the two
files were, so that a resumed run cuts off what the killed one wrote after them.
"""

import json
import os
import sys
import time
from pathlib import Path

PROGRESS_SECONDS = 10.0  # between two lines where the line cannot be redrawn


def is_timing(name: str) -> bool:
    """Whether a metric measures time, and so differs between two equal runs."""
    return name.endswith(("seconds", "per_second"))


class MetricsLog:
    """Rows of a run, in memory and (with a folder) in files that grow.

    Args:
      folder: where `metrics.jsonl`, `samples.jsonl` and TensorBoard's event files
        go; None keeps the rows in memory only.
      position: lengths of the files in bytes, as `position()` gave them when the
        checkpoint was written; what comes after is cut off. {} starts empty.
      step: the step that was resumed from.
    """

    def __init__(self, folder: Path | None, position: dict[str, int], step: int):
        self.rows: list[dict] = []
        self.files: dict = {}
        self.board = None
        if folder is None:
            return
        from tensorboardX import SummaryWriter  # half a second: only where needed

        folder.mkdir(parents=True, exist_ok=True)
        for name in ("metrics.jsonl", "samples.jsonl"):
            file = open(folder / name, "a+", encoding="utf-8")
            file.truncate(position.get(name, 0))
            self.files[name] = file
        self.files["metrics.jsonl"].seek(0)
        self.rows = [json.loads(line) for line in self.files["metrics.jsonl"]]
        self.board = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, row: dict, samples: list[dict]) -> None:
        """Adds the row of one step and the answers that were sampled for it."""
        self.rows.append(row)
        if self.board is None:
            return
        self._append("metrics.jsonl", [row])
        self._append("samples.jsonl", [{"step": row["step"], **s} for s in samples])
        for name, value in row.items():
            self.board.add_scalar(name, value, row["step"])

    def _append(self, name: str, rows: list[dict]) -> None:
        file = self.files[name]
        file.write("".join(json.dumps(row) + "\n" for row in rows))
        file.flush()

    def position(self) -> dict[str, int]:
        """Lengths of the files in bytes, to be kept in a checkpoint."""
        return {name: os.fstat(f.fileno()).st_size for name, f in self.files.items()}

    def flush(self) -> None:
        """Makes TensorBoard's events visible; the other files are after each row."""
        if self.board is not None:
            self.board.flush()


class Progress:
    """One plain-text line: step, loss, reward, tokens per second, time left.

    A terminal redraws it; elsewhere a new line comes every ten seconds.

    Args:
      steps: how many steps the run will have.
      show: False prints nothing.
    """

    def __init__(self, steps: int, show: bool):
        self.steps, self.show = steps, show
        self.redraws = sys.stdout.isatty()
        self.last = 0.0
        self.seconds = 0.0

    def line(self, row: dict) -> str:
        """The text for one row of metrics."""
        seconds = row["seconds"]
        self.seconds = 0.8 * (self.seconds or seconds) + 0.2 * seconds
        left = round((self.steps - row["step"]) * self.seconds)
        parts = [f"step {row['step']}/{self.steps}", f"loss {row['loss']:.4f}"]
        if "reward" in row:
            parts.append(f"reward {row['reward']:.3f}")
        parts.append(f"{row['tokens_per_second']:,.0f} tokens/s")
        parts.append(f"{left // 60}:{left % 60:02d} left")
        return " · ".join(parts)

    def update(self, row: dict) -> None:
        """Shows the row, at most once in a while and always at the last step."""
        text, now = self.line(row), time.monotonic()
        wait = 0.2 if self.redraws else PROGRESS_SECONDS
        is_last = row["step"] == self.steps
        if not self.show or (now - self.last < wait and not is_last):
            return
        self.last = now
        if self.redraws:
            print(f"\r{text:<79}", end="\n" if is_last else "", flush=True)
        else:
            print(text, flush=True)
