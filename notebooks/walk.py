"""`make course`: run the walk, notebook by notebook, and print what it measured.

    python notebooks/walk.py              all notebooks of the walk
    python notebooks/walk.py 03 07_grpo   these, by number, name or path

Executed copies go to build/notebooks, the scores of the stages to build/results.json,
and a figure to build/walk.png. A notebook that ran to its end is not run again unless
its code, or something before it, has changed. Stopped and started again, a walk goes on
where it was, because trainings resume from their checkpoints. After a notebook that
fails, the others still run, and the exit status is 1.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import threading
import time

import nbformat
import publish
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from publish import FOLDER, ROOT

from helpers import runtime
from helpers.course import results
from helpers.course.syllabus import LESSONS
from helpers.plots import plotting
from helpers.recipes import preset

# The notebooks of the walk, in order.
WALK = [number for number, lesson in LESSONS.items() if lesson.walk]
PROGRESS = re.compile(r"^step (\d+/\d+\b.*)$", re.MULTILINE)


class NotebookFailed(Exception):
    """A cell failed. The message has the cell and its error, `short` only the error."""

    def __init__(self, name: str, error: Exception):
        super().__init__(str(error))
        kind = getattr(error, "ename", type(error).__name__)
        first = (str(getattr(error, "evalue", error)).splitlines() or [""])[0]
        self.name, self.short = name, f"{kind}: {first}".rstrip(": ")


def fingerprint() -> str:
    """Hash of what all notebooks depend on: helpers, shipped data, preset and seed."""
    settings = f"{os.environ.get('COURSE_PRESET')} {runtime.seed()}"
    digest = hashlib.sha256(settings.encode())
    files = [*(ROOT / "helpers").rglob("*"), *(ROOT / "data" / "tiny").rglob("*")]
    for file in sorted(f for f in files if f.is_file() and f.suffix != ".pyc"):
        digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def read(number: str) -> nbformat.NotebookNode:
    """A notebook as it is committed."""
    return nbformat.read(FOLDER / f"{LESSONS[number].file}.ipynb", as_version=4)


def code_of(number: str) -> list[str]:
    """The code cells of a notebook."""
    return [cell.source for cell in read(number).cells if cell.cell_type == "code"]


def executed(number: str) -> pathlib.Path:
    """The executed copy of a notebook; its state lies beside it as JSON."""
    return runtime.build_folder() / "notebooks" / f"{LESSONS[number].file}.ipynb"


def read_state(number: str) -> dict:
    """{"key", "done", "seconds"} of a notebook's last run; empty before the first."""
    try:
        return json.loads(executed(number).with_suffix(".json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def write_state(number: str, key: str, done: bool, seconds: float) -> None:
    """Notes how a run stands, in one step."""
    path = executed(number).with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"key": key, "done": done, "seconds": seconds}))
    os.replace(partial, path)


def makers(number: str) -> dict[str, str]:
    """The stages of earlier notebooks that one uses: {stage: number of its maker}."""
    used = re.findall(r'stage_folder\(\s*"(\w+)"', "\n".join(code_of(number)))
    return {
        stage: maker
        for maker in WALK
        for stage in LESSONS[maker].stages
        if maker < number and stage in used
    }


def key_of(number: str, base: str) -> str:
    """Hash of what decides a notebook's outcome.

    That is `base`, its code and the code of all before it, and for each stage that it
    uses, which run made it.
    """
    code = [code_of(earlier) for earlier in WALK if earlier < number]
    used = [
        read_state(maker).get("key", "by hand")
        if runtime.model_folder(stage).is_dir()
        else "shipped"
        for stage, maker in makers(number).items()
    ]
    decides = [base, code, code_of(number), used]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


def say(name: str, text: str) -> None:
    """Prints a line about a notebook, over one that is being redrawn."""
    clear = "\r\033[K" if sys.stdout.isatty() else ""
    print(f"{clear}{name:<22} {text}", flush=True)


class Line:
    """What a notebook is doing: redrawn each second in a terminal, once in a log."""

    def __init__(self, name: str, cells: list, seconds: float):
        self.name, self.cells = name, cells
        self.started = time.monotonic() - seconds
        self.cell, self.doing = 0, ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self):
        if sys.stdout.isatty():
            self.thread.start()
        else:
            say(self.name, f"started at {time.strftime('%H:%M:%S')}")
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()

    def on_cell(self, index: int) -> None:
        """The cell of this index runs now."""
        self.cell = index
        headings = re.findall(r"^#+ (.*)$", self.cells[index].source, re.MULTILINE)
        if self.cells[index].cell_type == "markdown" and headings:
            self.doing = headings[-1]

    def on_text(self, printed: str) -> None:
        """The cell printed this; a training's progress is shown."""
        steps = PROGRESS.findall(printed.replace("\r", "\n"))
        self.doing = f"step {steps[-1]}" if steps else self.doing

    def text(self) -> str:
        """The line as it is now."""
        seconds = time.monotonic() - self.started
        place = f"cell {self.cell + 1} of {len(self.cells)}"
        return f"{self.name:<22} {seconds:5.0f} s  {place}  {self.doing}".rstrip()

    def _redraw(self):
        while not self.over.wait(1.0):
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + self.text()[:width], end="", flush=True)


def run(number: str, base: str) -> None:
    """Runs one notebook unless its executed copy is current.

    Raises:
      NotebookFailed: a cell failed.
    """
    lesson, key, last = LESSONS[number], key_of(number, base), read_state(number)
    measured = {r["stage"] for r in results.rows() if r["seed"] == runtime.seed()}
    if last.get("key") == key and last["done"] and measured.issuperset(lesson.stages):
        say(lesson.file, f"{last['seconds']:5.0f} s  ok, reused")
        return
    if last and last["key"] != key:
        publish.forget_runs(number)  # trained by other code, or from another model
    spent = last["seconds"] if last.get("key") == key else 0.0
    write_state(number, key, False, spent)
    notebook, started, failed = read(number), time.monotonic(), None
    with Line(lesson.file, notebook.cells, spent) as line:
        try:
            publish.execute(notebook, line.on_cell, line.on_text)
            publish.normalise(notebook, number)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed = NotebookFailed(lesson.file, error)
        finally:
            seconds = spent + time.monotonic() - started
            write_state(number, key, False, seconds)
            nbformat.write(notebook, executed(number))
    if failed:
        say(lesson.file, f"{seconds:5.0f} s  FAILED, {failed.short}")
        raise failed
    write_state(number, key, True, seconds)
    say(lesson.file, f"{seconds:5.0f} s  ok")


def walk(numbers: list[str], base: str) -> dict[str, NotebookFailed]:
    """Runs notebooks in order, also after one that fails; returns those that did."""
    failed = {}
    for number in numbers:
        for stage, maker in makers(number).items():
            if maker in failed:
                why = f"{LESSONS[maker].file} failed"
                say(LESSONS[number].file, f"uses an older or shipped {stage}: {why}")
        try:
            run(number, base)
        except NotebookFailed as error:
            text = str(error)
            if not sys.stderr.isatty():
                text = re.sub(r"\x1b\[[\d;]*m", "", text)  # colours
            print(text, file=sys.stderr, flush=True)
            failed[number] = error
    return failed


def report(numbers: list[str]) -> None:
    """Prints the results table and the minutes, and draws the walk."""
    table = [row for row in results.rows() if row["seed"] == runtime.seed()]
    print("\n" + results.markdown(table) + "\n")
    build = os.path.relpath(runtime.build_folder())
    if table:
        picture = runtime.build_folder() / "walk.png"
        picture.write_bytes(plotting.png(results.walk(table)))
        print(f"The walk as a picture:  {build}/walk.png")
    print(f"The scores as data:     {build}/results.json")
    print(f"Executed notebooks:     {build}/notebooks/")
    seconds = sum(read_state(number).get("seconds", 0.0) for number in numbers)
    print(f"The walk took {seconds / 60:.1f} minutes.", flush=True)


def notebook_number(text: str) -> str:
    """The number, "07", of a notebook named as 7, 07, 07_grpo or by its path.

    Raises:
      argparse.ArgumentTypeError: there is none of this name.
    """
    name = pathlib.PurePath(text).name.removesuffix(".ipynb")
    for number, lesson in LESSONS.items():
        if name in (lesson.file, number, number.removeprefix("0")):
            return number
    names = ", ".join(lesson.file for lesson in LESSONS.values())
    raise argparse.ArgumentTypeError(
        f"there is no notebook {text!r}. There are {names}"
    )


def main(arguments=None) -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description="Runs the walk, or the notebooks that are named, and reports.",
        epilog="Stopped, it goes on from there. COURSE_SEED=7 walks with another seed.",
    )
    parser.add_argument(
        "notebook",
        nargs="*",
        type=notebook_number,
        help="such as 7, 07, 07_grpo or notebooks/07_grpo.ipynb",
    )
    numbers = sorted(set(parser.parse_args(arguments).notebook)) or WALK
    publish.prepare_environment()
    try:
        for check in (preset, runtime.seed, results.rows):
            check()
    except ValueError as error:  # it names the setting, and what to do
        sys.exit(f"{error}")
    try:
        failed = walk(numbers, fingerprint())
    except KeyboardInterrupt:
        say("Stopped.", "The same command goes on from here.")
        raise SystemExit(130) from None
    report(numbers)
    for error in failed.values():
        print(f"{error.name} failed: {error.short}", file=sys.stderr)
    if failed:
        sys.exit("Fix the cause and run the same command again: what is done is kept.")


if __name__ == "__main__":
    main()
