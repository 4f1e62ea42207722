"""The line of `make course` that says what a notebook is doing.

A terminal redraws it every second: seconds, cell, and the training's own progress, or
the section where nothing trains. A log gets one line when a notebook starts and one
when it ends.
"""

import re
import shutil
import sys
import threading
import time

PROGRESS = re.compile(r"^step (\d+)/(\d+)\b(.*)$", re.MULTILINE)
NAME = 22  # columns of a notebook's name
EVERY = 1.0  # seconds between two drawings


def say(name: str, text: str) -> None:
    """One line about a notebook, in the place of one that is being redrawn."""
    clear = "\r\033[K" if sys.stdout.isatty() else ""
    print(f"{clear}{name:<{NAME}} {text}", flush=True)


def training(printed: str) -> str | None:
    """What a training said last, shortened; None where none said anything.

    Args:
      printed: output of a cell, such as
        "step 24/48 · loss -0.0123 · reward 0.613 · 5,234 tokens/s · 0:41 left".
    Returns:
      Such as "step 24 of 48 · reward 0.613 · 0:41 left".
    """
    found = PROGRESS.findall(printed.replace("\r", "\n"))
    if not found:
        return None
    step, steps, rest = found[-1]
    if step == steps:
        return f"all {steps} steps done"
    parts = [part.strip() for part in rest.split(" · ")]
    said = [f"step {step} of {steps}"]
    for wanted in (r"reward .*", r"loss .*"):
        values = [part for part in parts if re.fullmatch(wanted, part)]
        if values:
            said.append(values[0])
            break
    said += [part for part in parts if re.fullmatch(r".* left|compiling.*", part)]
    return " · ".join(said)


class Line:
    """What one notebook is doing, from its start to its end.

    Args:
      name: of the notebook.
      cells: its cells, of which code runs and headings are shown.
      spent: seconds it has taken before, when it was stopped.
    """

    def __init__(self, name: str, cells: list, spent: float = 0.0):
        self.name, self.cells, self.spent = name, cells, spent
        self.started = time.monotonic()
        self.at, self.section, self.doing = 0, "", None
        self._over = threading.Event()
        self._ticks = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self):
        if sys.stdout.isatty():
            self._ticks.start()
        else:
            again = f", goes on after {self.spent:.0f} s" if self.spent else ""
            say(self.name, f"started at {time.strftime('%H:%M:%S')}{again}")
        return self

    def __exit__(self, *_):
        self._over.set()
        if self._ticks.is_alive():
            self._ticks.join()

    def cell(self, index: int) -> None:
        """The cell of this index runs now."""
        self.at, self.doing = index, None
        headings = re.findall(r"^#+ (.*)$", self.cells[index].source, re.MULTILINE)
        if self.cells[index].cell_type == "markdown" and headings:
            self.section = headings[-1]

    def printed(self, text: str) -> None:
        """The cell that runs printed this."""
        self.doing = training(text) or self.doing

    def text(self) -> str:
        """The line as it is now."""
        seconds = self.spent + time.monotonic() - self.started
        place = f"cell {self.at + 1} of {len(self.cells)}"
        doing = self.doing or self.section
        return f"{self.name:<{NAME}} {seconds:5.0f} s  {place}  {doing}".rstrip()

    def _tick(self):
        while not self._over.wait(EVERY):
            width = shutil.get_terminal_size().columns - 1  # a full line would wrap
            print("\r\033[K" + self.text()[:width], end="", flush=True)
