"""`make course` with real kernels, on a walk of tiny notebooks; Ctrl-C, too.

What does not depend on kernels is in test_walk_logic.py.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import nbformat
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The walk over notebooks in the current folder instead of the course's.
DRIVER = f"""
import pathlib, sys
sys.path.insert(0, {str(ROOT / "notebooks")!r})
import publish, walk
from helpers.course.syllabus import Lesson
lessons = {{
    "02": Lesson("02_first", "First", "first", {{"laptop": 1}}, ("sft",)),
    "03": Lesson("03_second", "Second", "second", {{"laptop": 1}}),
    "04": Lesson("04_third", "Third", "third", {{"laptop": 1}}),
    "13": Lesson("13_missing", "Not of the walk", "aside", {{"laptop": 1}}, walk=False),
}}
publish.FOLDER = walk.FOLDER = pathlib.Path.cwd()
publish.LESSONS = walk.LESSONS = lessons
walk.fingerprint = lambda: "helpers and data as they are"
walk.main()
"""
ROW = {
    "stage": "sft",
    "params": 5,
    "greedy": 0.5,
    "pass1": 0.4,
    "pass8": 0.9,
    "low": 0.4,
    "high": 0.6,
    "n": 100,
    "seed": 0,
    "seconds": 1.0,
}
FIRST = f"""
from helpers import runtime
from helpers.course import results
runtime.run_folder("sft").mkdir(parents=True, exist_ok=True)
(runtime.run_folder("sft") / "steps").open("a").write("x")
results.record({ROW!r})
"""


def write(folder: pathlib.Path, name: str, code: str):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(code)]
    nbformat.write(notebook, folder / f"{name}.ipynb")


def start(folder: pathlib.Path, *arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "COURSE_BUILD": str(folder / "build")}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts():
    """A shell that starts the suite in the background has it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def walk(folder: pathlib.Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "02_first", FIRST)
    write(tmp_path, "03_second", "print('second')")
    write(tmp_path, "04_third", "print('third')")
    return tmp_path


def test_fingerprint_covers_helpers_data_preset_and_seed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "notebooks")
    import walk as course_walk

    monkeypatch.setattr(course_walk, "ROOT", tmp_path)
    (tmp_path / "helpers/losses").mkdir(parents=True)
    (tmp_path / "data/tiny/base").mkdir(parents=True)
    seen = {course_walk.fingerprint()}
    for name in ("helpers/losses/means.py", "data/tiny/base/model.safetensors"):
        for content in ("one", "two"):
            (tmp_path / name).write_text(content)
            seen.add(course_walk.fingerprint())
    (tmp_path / "README.md").write_text("not part of it")
    assert course_walk.fingerprint() in seen
    for name, value in (("COURSE_SEED", "7"), ("COURSE_PRESET", "v5e-1")):
        monkeypatch.setenv(name, value)
        seen.add(course_walk.fingerprint())
    assert len(seen) == 7


@pytest.mark.slow
def test_runs_in_order_and_reports(folder):
    code, out, err = walk(folder)
    assert code == 0, err
    assert out.index("02_first") < out.index("03_second") < out.index("| SFT |")
    (row,) = json.loads((folder / "build/results.json").read_text())
    assert {name: row[name] for name in ROW} == ROW
    assert row["versions"].startswith("jax ") and row["load"] >= 0
    assert (folder / "build/walk.png").read_bytes()[:4] == b"\x89PNG"
    copy = nbformat.read(folder / "build/notebooks/03_second.ipynb", as_version=4)
    assert copy.cells[0].outputs[0].text == "second\n"


@pytest.mark.slow
def test_a_failing_cell_is_shown_and_the_others_run(folder):
    uses = 'from helpers import course\nprint(course.stage_folder("sft"))'
    write(folder, "02_first", "print('before')\nreward = 1 / 0")
    write(folder, "03_second", uses)
    code, out, err = walk(folder)
    assert code == 1
    assert "02_first" in out and "FAILED, ZeroDivisionError: division by zero" in out
    assert "reward = 1 / 0" in err and "\x1b" not in err
    copy = nbformat.read(folder / "build/notebooks/02_first.ipynb", as_version=4)
    assert copy.cells[0].outputs[0].text == "before\n"
    assert re.search(r"03_second +uses the shipped \S*data/tiny/sft, because 02_f", out)
    ends = re.findall(r"(\w+) +\d+ s  (ok|FAILED)", out)
    assert ends == [("02_first", "FAILED"), ("03_second", "ok"), ("04_third", "ok")]
    at_the_end = err[err.index("Failed: 1 of") :]
    assert "02_first" in at_the_end and "build/notebooks/02_first.ipynb" in at_the_end
    assert "03_second" not in at_the_end


@pytest.mark.slow
def test_kernels_import_the_helpers_that_stand_beside_the_walk(folder, monkeypatch):
    (folder / "elsewhere" / "helpers").mkdir(parents=True)
    (folder / "elsewhere" / "helpers" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder / "elsewhere"))
    write(folder, "03_second", "import helpers\nprint(helpers.__file__)")
    code, out, err = walk(folder)
    assert code == 0, err
    copy = nbformat.read(folder / "build/notebooks/03_second.ipynb", as_version=4)
    assert "elsewhere" not in copy.cells[0].outputs[0].text


@pytest.mark.slow
def test_goes_on_after_ctrl_c(folder):
    write(
        folder,
        "03_second",
        "import pathlib, time\n"
        "again = pathlib.Path('started').exists()\n"
        "pathlib.Path('started').touch()\n"
        "time.sleep(0 if again else 100)",
    )
    process = start(folder)
    deadline = time.monotonic() + 180
    while not (folder / "started").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    for _ in range(3):  # Python drops an interrupt that falls into a destructor
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(timeout=20)
            break
    assert process.returncode == 130
    assert "goes on from here" in out and "Traceback" not in err

    code, out, err = walk(folder)
    assert code == 0, err
    assert out.count("reused") == 1
