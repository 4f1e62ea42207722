"""`make course`: run the walk, notebook by notebook, and print what it measured.

    python notebooks/walk.py              all notebooks of the walk
    python notebooks/walk.py 03 07_grpo   these, by number, name or path

Executed copies go to build/notebooks, figures of the stages to build/results.json, the
picture of the walk to build/walk.png. A notebook that ran already, and whose code and
everything before it are unchanged, is not run again; a walk that was stopped goes on
where it was, because trainings resume from their own checkpoints. After a notebook that
fails the others run, and the exit status is 1.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
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
from walk_line import Line, say

from helpers import runtime
from helpers.course import results
from helpers.course.syllabus import LESSONS
from helpers.plots import plotting
from helpers.recipes import preset

# The notebooks of the walk, in order.
WALK = [number for number, lesson in LESSONS.items() if lesson.walk]


class NotebookFailed(Exception):
    """A cell of a notebook failed; the message is the cell and its error.

    Attributes:
      name: of the notebook.
      short: the error in one line.
    """

    def __init__(self, name: str, error: Exception):
        super().__init__(str(error))
        kind = getattr(error, "ename", type(error).__name__)
        first = (str(getattr(error, "evalue", error)).splitlines() or [""])[0]
        self.name, self.short = name, f"{kind}: {first}".rstrip(": ")


class BuildFolderGone(Exception):
    """What a walk had made was deleted while it ran."""


def fingerprint() -> str:
    """Hash of what all notebooks depend on: helpers, shipped data, preset and seed."""
    settings = f"{os.environ.get('COURSE_PRESET')} {runtime.seed()}"
    digest = hashlib.sha256(settings.encode())
    files = [*(ROOT / "helpers").rglob("*.py"), *(ROOT / "data" / "tiny").rglob("*")]
    for file in sorted(path for path in files if path.is_file()):
        digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def read(number: str) -> nbformat.NotebookNode:
    """A notebook as it is committed."""
    return nbformat.read(FOLDER / f"{LESSONS[number].file}.ipynb", as_version=4)


def code_of(number: str) -> list[str]:
    """The code cells of a notebook."""
    return [cell.source for cell in read(number).cells if cell.cell_type == "code"]


def makers(number: str) -> dict[str, str]:
    """The stages a notebook uses of earlier ones in the walk: {stage: their number}."""
    used = re.findall(r'stage_folder\(\s*"(\w+)"', "\n".join(code_of(number)))
    return {
        stage: maker
        for maker, row in LESSONS.items()
        for stage in row.stages
        if row.walk and maker < number and stage in used
    }


def key_of(number: str, base: str) -> str:
    """Hash of what decides a notebook's outcome.

    That is `base`, its code and that of all before it in the walk, and for each stage
    that it uses what made it: a run of the notebook that trains it, or the course.
    """
    code = [code_of(n) for n, row in LESSONS.items() if row.walk and n < number]
    used = [
        Copy(LESSONS[maker].file).state().get("key", "by hand")
        if runtime.model_folder(stage).is_dir()
        else "shipped"
        for stage, maker in makers(number).items()
    ]
    decides = [base, code, code_of(number), used]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


class Copy:
    """The executed copy of one notebook in the build folder, and what made it."""

    def __init__(self, name: str):
        self.folder = runtime.build_folder() / "notebooks"
        self.path = self.folder / f"{name}.ipynb"
        self._state = self.folder / f"{name}.json"

    def state(self) -> dict:
        """{"key", "done", "seconds"} of the last run; empty before the first."""
        try:
            return json.loads(self._state.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def forget(self) -> None:
        """Drop the state, so that the notebook counts as never run."""
        self._state.unlink(missing_ok=True)

    def begin(self, key: str, seconds: float) -> None:
        """Note that a run with this key has begun."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(key, False, seconds)

    def end(self, key: str, done: bool, seconds: float, notebook) -> None:
        """Keep the executed notebook, and whether it came to its end.

        Raises:
          BuildFolderGone: what `begin` noted is not there any more.
        """
        if not self._state.exists():
            raise BuildFolderGone(
                f"{shown(runtime.build_folder())} was deleted or emptied while "
                f"{self.path.stem} ran, and with it what the notebooks before it had "
                "made. Run the same command again: it makes all anew."
            )
        nbformat.write(notebook, self.path)
        self._write(key, done, seconds)

    def _write(self, key, done, seconds):
        """Replace the state in one step."""
        aside = self._state.with_suffix(".partial")
        aside.write_text(json.dumps({"key": key, "done": done, "seconds": seconds}))
        os.replace(aside, self._state)


def is_current(number: str, key: str) -> bool:
    """Whether a notebook ran to its end with this key, and what it made is there."""
    copy = Copy(LESSONS[number].file)
    last = copy.state()
    rows = {row["stage"] for row in results.rows() if row["seed"] == runtime.seed()}
    has_rows = rows.issuperset(LESSONS[number].stages)
    return bool(
        last.get("key") == key and last.get("done") and copy.path.exists() and has_rows
    )


def run(number: str, base: str, prepare=None) -> None:
    """Run one notebook unless its copy is current.

    Args:
      number: such as "07".
      base: hash of what all notebooks depend on, see `fingerprint`.
      prepare: called with the notebook before it runs, to change the executed copy.
    Raises:
      NotebookFailed: a cell failed.
      BuildFolderGone: the build folder was deleted meanwhile.
    """
    name, key = LESSONS[number].file, key_of(number, base)
    copy = Copy(name)
    last = copy.state()
    if is_current(number, key):
        say(name, f"{last['seconds']:5.0f} s  ok, reused")
        return
    if last and last["key"] != key:
        publish.forget_runs(number)  # trained by other code, or from another model
    spent = last["seconds"] if last.get("key") == key else 0.0
    copy.begin(key, spent)
    notebook, started = read(number), time.monotonic()
    if prepare:
        prepare(notebook)
    failed = None
    with Line(name, notebook.cells, spent) as line:
        try:
            publish.execute(notebook, line.cell, line.printed)
            publish.normalise(notebook, number)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed = NotebookFailed(name, error)
        finally:
            seconds = spent + time.monotonic() - started
            copy.end(key, False, seconds, notebook)
    if failed:
        say(name, f"{seconds:5.0f} s  FAILED, {failed.short}")
        raise failed
    copy.end(key, True, seconds, notebook)
    say(name, f"{seconds:5.0f} s  ok")


def say_what_it_uses(number: str, failed: list[str]) -> None:
    """Say of each stage a notebook uses if it is not what the walk has just made."""
    for stage, maker in makers(number).items():
        because = f", because {LESSONS[maker].file} failed" if maker in failed else ""
        if not runtime.model_folder(stage).is_dir():
            said = f"uses the shipped {shown(ROOT / 'data' / 'tiny' / stage)}{because}"
        elif because:
            said = f"uses the {stage} that {LESSONS[maker].file} saved before it failed"
        else:
            continue
        say(LESSONS[number].file, said)


def walk(numbers: list[str], base: str) -> dict[str, NotebookFailed]:
    """Run these notebooks in order, also after one that fails; gives those that did.

    Raises:
      BuildFolderGone: the build folder was deleted meanwhile.
    """
    failed = {}
    for number in numbers:
        say_what_it_uses(number, list(failed))
        try:
            run(number, base)
        except NotebookFailed as error:
            print(_plain(f"{error}"), file=sys.stderr, flush=True)
            failed[number] = error
    return failed


def _plain(text: str) -> str:
    """The text without colours, where no terminal shows them."""
    return text if sys.stderr.isatty() else re.sub(r"\x1b\[[\d;]*m", "", text)


def shown(path: pathlib.Path) -> str:
    """A path as the reader sees it from where they are."""
    return os.path.relpath(path)


def report() -> None:
    """Print the results table and draw the walk."""
    table = [row for row in results.rows() if row["seed"] == runtime.seed()]
    print("\n" + results.markdown(table) + "\n")
    if table:
        picture = runtime.build_folder() / "walk.png"
        picture.write_bytes(plotting.png(results.walk(table)))
        print(f"The walk as a picture:  {shown(picture)}")
    print(f"The figures as data:    {shown(results.path())}")
    print(f"Executed notebooks:     {shown(runtime.build_folder() / 'notebooks')}/")


def report_time(numbers: list[str], now: float) -> None:
    """Print the minutes of all runs of these notebooks, and those of this one."""
    copies = [Copy(LESSONS[number].file) for number in numbers]
    seconds = sum(copy.state().get("seconds", 0.0) for copy in copies)
    of_now = f", {now / 60:.1f} of them now" if seconds - now > 3 else ""
    print(f"The walk took {seconds / 60:.1f} minutes{of_now}.", flush=True)


def report_failed(failed: dict[str, NotebookFailed]) -> None:
    """Say which notebooks failed, and how to see why."""
    lines = [f"\nFailed: {len(failed)} of the notebooks."]
    for error in failed.values():
        lines += [f"  {error.name}: {error.short}"]
        lines += [f"      executed up to that cell: {shown(Copy(error.name).path)}"]
    lines.append(
        "The errors stand above, and in these copies (open them with `make lab`). Mend "
        "the cause and run the same command again: what is done is kept."
    )
    print("\n".join(lines), file=sys.stderr)


def notebook_number(said: str) -> str:
    """The number, "07", of a notebook named as 7, 07, 07_grpo or by its path.

    Raises:
      argparse.ArgumentTypeError: there is none of this name.
    """
    name = pathlib.PurePath(said).name.removesuffix(".ipynb")
    for number, lesson in LESSONS.items():
        short = number.removeprefix("0")  # 7, 8b; and 0
        if name in (lesson.file, number, short):
            return number
    names = ", ".join(lesson.file for lesson in LESSONS.values())
    raise argparse.ArgumentTypeError(
        f"there is no notebook {said!r}. There are {names}"
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
    asked = sorted(set(parser.parse_args(arguments).notebook))
    numbers = asked or [number for number, row in LESSONS.items() if row.walk]
    os.environ.setdefault("COURSE_PRESET", "laptop")
    publish.prepare_environment()
    try:
        for check in (preset, runtime.seed, results.rows):
            check()
    except ValueError as error:  # it names the setting, and what to do
        sys.exit(f"{error}")
    started = time.monotonic()
    try:
        failed = walk(numbers, fingerprint())
    except KeyboardInterrupt:
        say("Stopped.", "The same command goes on from here.")
        raise SystemExit(130) from None
    except BuildFolderGone as error:
        sys.exit(f"\n{error}")
    report()
    report_time(numbers, time.monotonic() - started)
    if failed:
        report_failed(failed)
        sys.exit(1)


if __name__ == "__main__":
    main()
