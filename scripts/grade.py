"""Checks a class's notebooks: `make grade FOLDER=class` writes build/grades.csv.

    python -m scripts.grade FOLDER [--out build/grades.csv] [--seconds 20]

Of each notebook only the imports and the exercise cells run. The checks are taken from
this copy of the course, so changing a check in a notebook has no effect. Each notebook
runs in a subprocess with limits on time and memory, without your environment variables,
and on Linux without a network where `unshare` is allowed.

This stops accidents: endless loops, too much memory, a cell that ends its process. It
is no sandbox against an attacker, because a student's code runs beside the checks, may
read your files, and could imitate a verdict. docs/teaching.md has the container command
for notebooks of people you do not know.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import resource
import secrets
import signal
import subprocess
import sys
import tempfile

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIELDS = ("file", "notebook", "exercise", "result", "message")
START = 120  # seconds to start a kernel and import what the notebook imports
MEMORY = 4 * 2**30  # bytes of address space


def course_notebooks(folder: pathlib.Path) -> dict[str, nbformat.NotebookNode]:
    """The course's notebooks by number, such as "07"."""
    paths = sorted(folder.glob("[0-9]*_*.ipynb"))
    return {path.name.partition("_")[0]: nbformat.read(path, 4) for path in paths}


def tagged(notebook, tag: str) -> list[str]:
    """The sources of the cells with a tag."""
    return [c.source for c in notebook.cells if tag in c.metadata.get("tags", ())]


def grade(path: pathlib.Path, course: dict, seconds: float) -> list[tuple]:
    """(exercise, result, message) for each exercise, whatever is in the file."""
    try:
        theirs = nbformat.read(path, 4)
        title = "\n".join(c.source for c in theirs.cells if c.cell_type == "markdown")
        number = re.search(r"^# (\d\d[a-z]?) ·", title, re.MULTILINE)[1]
        ours, answers = course[number], tagged(theirs, "exercise")
    except Exception as error:
        return [("", "error", f"not a notebook of the course: {error}")]
    stubs, checks = tagged(ours, "exercise"), tagged(ours, "check")
    if len(answers) != len(stubs):
        message = f"{len(answers)} exercise cells where the course has {len(stubs)}"
        return [("", "error", message)]
    imports = tagged(theirs, "imports") or tagged(ours, "imports")
    job = {"imports": imports, "answers": answers, "checks": checks}
    verdicts = run_locked(job | {"seconds": seconds}, START + 9 * seconds)
    rows = []
    for i, (answer, stub) in enumerate(zip(answers, stubs, strict=True)):
        verdict = verdicts[i] if i < len(verdicts) else ("error", "the process ended")
        if answer.strip() == stub.strip():
            verdict = ("not written", "")
        rows.append((f"{number}.{i + 1}", *verdict))
    return rows


def run_locked(job: dict, seconds: float) -> list:
    """Runs `run_cells` in a subprocess with limits; the verdicts that it printed."""
    # A namespace of its own has no network, and its processes end with it.
    alone = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        alone = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "COURSE_PRESET": "laptop",
        }
        process = subprocess.Popen(
            [*alone, sys.executable, "-m", "scripts.grade", "--cells"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(json.dumps(job), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
    return [json.loads(line) for line in out.splitlines() if line.startswith("[")]


def run_cells() -> None:
    """Runs the cells of a job from stdin; prints [result, message] for each answer."""
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    notebook = nbformat.v4.new_notebook()
    client = NotebookClient(
        notebook,
        timeout=job["seconds"],
        interrupt_on_timeout=True,
        allow_errors=True,
        kernel_name="python3",
    )
    client.create_kernel_manager().transport = "ipc"  # works without a network

    def outputs(source, timeout=job["seconds"]):
        client.timeout = timeout
        notebook.cells.append(nbformat.v4.new_code_cell(source))
        client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        return notebook.cells[-1].outputs

    with client.setup_kernel():
        for source in job["imports"]:
            outputs(source, START)
        for answer, check in zip(job["answers"], job["checks"], strict=True):
            mark = secrets.token_hex()
            report = (
                f"import json as _json\n_check = {check}\n"
                f"print({mark!r}, _json.dumps([_check.passed, _check.message]))"
            )
            try:
                verdict = verdict_of(outputs(answer)) or verdict_of(
                    outputs(report), mark
                )
            except DeadKernelError:
                verdict = ("error", "the cell ended its process")
            print(json.dumps(verdict), flush=True)


def verdict_of(outputs, mark: str = "") -> tuple | None:
    """The (result, message) that a cell's outputs show; None where there is none."""
    for output in outputs:
        if output.output_type == "error":
            if output.ename == "KeyboardInterrupt":
                return "timeout", "the cell took too long"
            return "error", f"{output.ename}: {output.evalue}"
        if mark and mark in output.get("text", ""):
            passed, message = json.loads(output.text.split(mark)[1].splitlines()[0])
            wrong = "not written" if message.startswith("Not written") else "not yet"
            return "right" if passed else wrong, message
    return None


def cell_text(value) -> str:
    """A text for a CSV file that no spreadsheet takes for a formula."""
    text = "".join(c if c.isprintable() else " " for c in str(value))[:300]
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/grades.csv")
    parser.add_argument("--course", type=pathlib.Path, default=ROOT / "notebooks")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seconds", type=float, default=20.0, help="for one cell")
    parser.add_argument("--cells", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cells:
        run_cells()
        return
    if given.folder is None or not given.folder.is_dir():
        sys.exit("Name the folder with the class's notebooks: make grade FOLDER=class")
    course = course_notebooks(given.course)
    paths = sorted(given.folder.rglob("*.ipynb"))
    paths = [path for path in paths if ".ipynb_checkpoints" not in path.parts]
    given.out.parent.mkdir(parents=True, exist_ok=True)

    def graded(path):
        return path, grade(path, course, given.seconds)

    with (
        open(given.out, "w", newline="", encoding="utf-8") as file,
        concurrent.futures.ThreadPoolExecutor(given.jobs) as pool,
    ):
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for path, rows in pool.map(graded, paths):
            name = path.relative_to(given.folder)
            for exercise, result, message in rows:
                number = exercise.partition(".")[0]
                row = (name, number, exercise, result, message)
                writer.writerow(map(cell_text, row))
            right = sum(result == "right" for _, result, _ in rows)
            print(f"{cell_text(name)}: {right} of {len(rows)} right", flush=True)
    print(f"{len(paths)} notebooks: {given.out}")


if __name__ == "__main__":
    main()
