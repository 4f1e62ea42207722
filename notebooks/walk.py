"""`make course`: run the walk, notebook by notebook, and print what it measured.

    python notebooks/walk.py [03 04 …]    all notebooks of the walk, or these

The others train nothing and hand nothing on.

Executed copies go to build/notebooks, figures of the stages to build/results.json, the
picture of the walk to build/walk.png. A notebook that ran already, and whose code and
everything before it are unchanged, is not run again; a walk that was stopped goes on
where it was, because trainings resume from their own checkpoints.
"""

import hashlib
import json
import os
import pathlib
import sys
import time

import nbformat
import publish
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from publish import FOLDER, ROOT

from helpers import plotting, results, runtime
from helpers.syllabus import LESSONS


def fingerprint() -> str:
    """Hash of what all notebooks depend on: helpers, shipped data, preset and seed."""
    settings = f"{os.environ.get('COURSE_PRESET')} {runtime.seed()}"
    digest = hashlib.sha256(settings.encode())
    files = [*(ROOT / "helpers").rglob("*.py"), *(ROOT / "data" / "tiny").rglob("*")]
    for file in sorted(path for path in files if path.is_file()):
        digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def key_of(notebook: nbformat.NotebookNode, before: str) -> str:
    """Hash of a notebook's code and of all that comes before it in the walk."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps([before, code]).encode()).hexdigest()


class Copy:
    """The executed copy of one notebook in the build folder, and what made it."""

    def __init__(self, name: str):
        folder = runtime.build_folder() / "notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.ipynb"
        self._state = folder / f"{name}.json"

    def state(self) -> dict:
        """{"key", "done", "seconds"} of the last run; empty before the first."""
        try:
            return json.loads(self._state.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def forget(self) -> None:
        """Drop the state, so that the notebook counts as never run."""
        self._state.unlink(missing_ok=True)

    def save_state(self, key: str, done: bool, seconds: float) -> None:
        """Replace the state in one step."""
        aside = self._state.with_suffix(".partial")
        aside.write_text(json.dumps({"key": key, "done": done, "seconds": seconds}))
        os.replace(aside, self._state)


def run(number: str, before: str, prepare=None) -> str:
    """Run one notebook of the walk unless its copy is current; returns its key.

    Args:
      number: such as "07".
      before: the key of the notebook before it.
      prepare: called with the notebook before it runs, to change the executed copy.
    Raises:
      SystemExit: a cell failed; the cell and its error have been printed.
    """
    name = LESSONS[number].file
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    key, copy = key_of(notebook, before), Copy(name)
    last = copy.state()
    rows = {row["stage"] for row in results.rows() if row["seed"] == runtime.seed()}
    has_rows = rows.issuperset(LESSONS[number].stages)
    if last.get("key") == key and last.get("done") and copy.path.exists() and has_rows:
        print(f"{name:<22} {last['seconds']:5.0f} s  ok, reused", flush=True)
        return key
    if last and last["key"] != key:
        publish.forget_runs(number)  # trained by other code
    spent = last["seconds"] if last.get("key") == key else 0.0
    copy.save_state(key, False, spent)
    started = time.monotonic()
    if prepare:
        prepare(notebook)
    try:
        publish.execute(notebook, on_cell=_show_progress(name, len(notebook.cells)))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        _fail(name, notebook, error)
    finally:
        seconds = spent + time.monotonic() - started
        copy.save_state(key, False, seconds)
        nbformat.write(notebook, copy.path)
    publish.normalise(notebook, number)
    nbformat.write(notebook, copy.path)
    copy.save_state(key, True, seconds)
    print(f"{_clear()}{name:<22} {seconds:5.0f} s  ok", flush=True)
    return key


def _show_progress(name, cells):
    """A line that follows the cells on a terminal; nothing in a log file."""
    started = time.monotonic()

    def show(index):
        if sys.stdout.isatty():
            seconds = time.monotonic() - started
            line = f"{name:<22} {seconds:5.0f} s  cell {index + 1} of {cells}"
            print(_clear() + line, end="", flush=True)

    return show


def _clear() -> str:
    return "\r\033[K" if sys.stdout.isatty() else ""


def _fail(name, notebook, error):
    print(f"{_clear()}{name:<22} FAILED", flush=True)
    print(error, file=sys.stderr)
    print(
        f"\nThe notebook up to this cell is in {_shown(Copy(name).path)}. Mend the "
        "cause and run `make course` again: what is done is kept.",
        file=sys.stderr,
    )
    raise SystemExit(1)


def _shown(path: pathlib.Path) -> str:
    """A path as the reader sees it from where they are."""
    return os.path.relpath(path)


def report() -> None:
    """Print the results table and draw the walk."""
    table = [row for row in results.rows() if row["seed"] == runtime.seed()]
    print("\n" + results.markdown(table) + "\n")
    if table:
        picture = runtime.build_folder() / "walk.png"
        picture.write_bytes(plotting.png(plotting.walk(table)))
        print(f"The walk as a picture:  {_shown(picture)}")
    print(f"The figures as data:    {_shown(results.path())}")
    print(f"Executed notebooks:     {_shown(runtime.build_folder() / 'notebooks')}/")


def main(numbers=()) -> None:
    """Run the notebooks of these numbers, or all of the walk, in order; then report."""
    os.environ.setdefault("COURSE_PRESET", "laptop")
    publish.prepare_environment()
    started = time.monotonic()
    key = fingerprint()
    try:
        for number in numbers or [n for n, row in LESSONS.items() if row.walk]:
            key = run(number, key)
    except KeyboardInterrupt:
        print(f"{_clear()}Stopped. `make course` goes on from here.", flush=True)
        raise SystemExit(130) from None
    report()
    print(f"The walk took {(time.monotonic() - started) / 60:.1f} minutes.")


if __name__ == "__main__":
    main(sys.argv[1:])
