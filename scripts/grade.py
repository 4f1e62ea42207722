"""`make grade FOLDER=…`: the self-checks over a class's notebooks, into a CSV file.

    python -m scripts.grade FOLDER --out build/grades.csv

Of each student's notebook only the imports and the exercises' cells are run, in a
process of its own that is locked in (scripts/grade_sandbox.py): 20 s an exercise, 4
GiB, an empty folder, no token, no network, no new process. The checks are this copy of
the course's; they run in another process, which runs nothing of the student's and asks
the first for values. A file that breaks, hangs or lies costs its own row.

What this does not prevent:

- an answer made for the check: who reads `helpers/exercises` can return what it asks
  for, and the course's own solutions are folded in every notebook. Read what was
  written.
- two exercises of notebook 13 and one of 08 are called by JAX itself; their checks run
  in the student's process, which could be made to lie. Their message says so.
- a cell may fill its temporary folder (files of at most 16 MiB) until its time is up,
  and use the cores. Where a lock is missing (Linux's seccomp or Landlock), the last
  line says so: there, grade in a virtual machine.
- a hole in Python, JAX or the kernel. Do not grade where your own secrets are.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIELDS = ("file", "notebook", "exercise", "result", "message", "seconds")
RESULTS = ("right", "not yet", "not written", "error", "timeout")
EXERCISES = 4  # most of a notebook


def notebooks(folder: pathlib.Path) -> list[pathlib.Path]:
    """The notebooks under a folder; links and Jupyter's own copies are left out."""
    found = [
        path
        for path in sorted(folder.rglob("*.ipynb"))
        if not path.is_symlink() and ".ipynb_checkpoints" not in path.parts
    ]
    return [path for path in found if path.is_file()]


def graded(path, folder, course, limits) -> tuple[list[dict], list[str]]:
    """(rows of one file, what the sandbox left open), whatever is in the file."""
    command = [sys.executable, "-m", "scripts.grade_judge", str(path), str(course)]
    judge = subprocess.Popen(
        [*command, json.dumps(limits)],
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    most = EXERCISES * (limits["start"] + 3 * limits["seconds"])
    stopped = f"grading it took more than {most:g} s"
    try:
        told, complaint = judge.communicate(timeout=most)
        stopped = (complaint.strip().splitlines() or ["it ended early"])[-1]
    except subprocess.TimeoutExpired:
        judge.kill()  # its student ends with it
        told, _ = judge.communicate()
    found = [json.loads(line) for line in told.splitlines()]
    if judge.returncode:
        found.append({"result": "error", "message": f"the judge: {stopped}"})
    name = str(path.relative_to(folder))
    left_open = {part for row in found for part in row.get("left_open", [])}
    return [_row(name, row) for row in found], sorted(left_open)


def _environment():
    """The judge is told no token either."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    own = {name: os.environ[name] for name in kept if name in os.environ}
    return own | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "NPROC": "1"}


def _row(name, row):
    return {"file": plain(name)} | {
        field: plain(row.get(field, "")) for field in FIELDS[1:]
    }


def plain(value) -> str:
    """A text for one cell of a table, which no spreadsheet takes for a formula."""
    text = "".join(c if c.isprintable() else " " for c in str(value))[:300]
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="with the class's notebooks")
    parser.add_argument("--out", type=pathlib.Path, default="build/grades.csv")
    parser.add_argument("--course", type=pathlib.Path, default=ROOT / "notebooks")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seconds", type=float, default=20.0, help="an exercise")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of memory")
    chosen = parser.parse_args()
    if chosen.folder == pathlib.Path() or not chosen.folder.is_dir():
        sys.exit(f"{chosen.folder} is no folder of a class: make grade FOLDER=…")
    folder, course = chosen.folder.resolve(), chosen.course.resolve()
    found = notebooks(folder)
    limits = {"seconds": chosen.seconds, "gigabytes": chosen.gigabytes, "start": 180.0}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    open_, total = set(), dict.fromkeys(RESULTS, 0)
    with (
        open(chosen.out, "w", newline="", encoding="utf-8") as file,
        concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        tasks = [pool.submit(graded, path, folder, course, limits) for path in found]
        for path, task in zip(found, tasks, strict=True):
            rows, left_open = task.result()
            writer.writerows(rows)
            open_ |= set(left_open)
            for row in rows:
                total[row["result"]] += 1
            print(f"{plain(path.relative_to(folder))}: {told(rows)}", flush=True)
    print(f"{len(found)} notebooks, {told_of(total)}: {chosen.out}")
    if open_:
        print(f"Not locked on this machine: {', '.join(sorted(open_))}.")


def told(rows) -> str:
    """The results of some rows, counted."""
    return told_of({kind: sum(r["result"] == kind for r in rows) for kind in RESULTS})


def told_of(counts) -> str:
    """Counts of results in words: "3 right, 1 not yet"."""
    said = [f"{count} {kind}" for kind, count in counts.items() if count]
    return ", ".join(said) or "nothing to grade"


if __name__ == "__main__":
    main()
