"""`make course` on a walk of tiny notebooks: what it runs, reuses and reports."""

import contextlib
import io
import os
import re
import traceback

import course_notebooks  # noqa: F401, finds notebooks/walk.py
import nbformat
import pytest
import walk
from nbclient.exceptions import CellExecutionError

from helpers.course.syllabus import Lesson

LESSONS = {
    "02": Lesson("02_first", "First", "first", 1, stages=("sft",)),
    "03": Lesson("03_second", "Second", "second", 1),
    "04": Lesson("04_third", "Third", "third", 1),
}
ROW = dict.fromkeys(("greedy", "pass1", "pass8", "low", "high"), 0.5)
ROW |= {"stage": "sft", "params": 5, "n": 100, "seed": 0, "seconds": 1.0}
TRAINS = f"""
from helpers import runtime
from helpers.course import results
runtime.model_folder("sft").mkdir(parents=True, exist_ok=True)
(runtime.run_folder("sft") / "steps").open("a").write("x")
results.record({ROW!r})
"""
FAILS_ONCE = """
import pathlib
again = pathlib.Path("started").exists()
pathlib.Path("started").touch()
assert again
"""


def execute(notebook, on_cell, on_text):
    """Stands for publish.execute: runs the cells in this process."""
    names = {}
    for index, cell in enumerate(notebook.cells):
        on_cell(index)
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(cell.source, names)
        except Exception as error:
            about = traceback.format_exc(), type(error).__name__, str(error)
            raise CellExecutionError(*about) from error
        finally:
            on_text(out.getvalue())
            cell.outputs = [nbformat.v4.new_output("stream", text=out.getvalue())]


def write(folder, name, code):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbformat.write(notebook, folder / f"{name}.ipynb")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Walks in tmp_path with these arguments; gives exit status, output and errors."""
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    for module in (walk, walk.publish):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
        monkeypatch.setattr(module, "LESSONS", LESSONS)
    monkeypatch.setattr(walk, "WALK", list(LESSONS))
    monkeypatch.setattr(walk.publish, "execute", execute)
    monkeypatch.setattr(walk, "fingerprint", lambda: "helpers and data as they are")
    monkeypatch.setattr(walk.results, "walk", lambda table: None)
    monkeypatch.setattr(walk.plotting, "png", lambda figure: b"")
    os.environ |= {"COURSE_BUILD": str(tmp_path / "build"), "COURSE_SEED": "0"}
    write(tmp_path, "02_first", TRAINS)
    for name in ("03_second", "04_third"):
        write(tmp_path, name, f"print({name!r})")

    def run(*arguments):
        status = 0
        try:
            walk.main(arguments)
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        if isinstance(status, str):  # sys.exit prints it, and gives 1
            status, err = 1, err + status
        return status, out, err

    yield run
    os.environ.clear()
    os.environ.update(before)


def ends(out):
    """How every notebook ended, in order."""
    return re.findall(r"^\w+ +\d+ s  (ok, reused|ok|FAILED)", out, re.MULTILINE)


def test_reuses_what_is_unchanged_and_nothing_else(run, tmp_path):
    assert ends(run()[1]) == ["ok"] * 3
    status, out, _ = run()
    assert status == 0 and ends(out) == ["ok, reused"] * 3 and "| SFT |" in out
    write(tmp_path, "03_second", "print('changed')")
    assert ends(run()[1]) == ["ok, reused", "ok", "ok"]
    (tmp_path / "build/results.json").unlink()
    assert ends(run()[1]) == ["ok", "ok, reused", "ok, reused"], "a lost row"
    write(tmp_path, "02_first", TRAINS + "\n# changed")
    assert ends(run()[1]) == ["ok"] * 3
    assert (tmp_path / "build/runs/sft/steps").read_text() == "x", "trained by old code"


def test_a_failing_cell_is_shown_and_the_others_run(run, tmp_path):
    write(tmp_path, "02_first", "print('before')\nreward = 1 / 0")
    uses = 'def stage_folder(_): pass\nstage_folder("sft")'
    write(tmp_path, "03_second", uses)
    status, out, err = run()
    assert status == 1 and ends(out) == ["FAILED", "ok", "ok"]
    assert "FAILED, ZeroDivisionError: division by zero" in out
    assert "Traceback" in err and "ZeroDivisionError" in err
    assert "shipped sft: 02_first failed" in out
    copy = nbformat.read(tmp_path / "build/notebooks/02_first.ipynb", as_version=4)
    assert copy.cells[0].outputs[0].text == "before\n"


def test_goes_on_after_a_failure_with_the_seconds_spent(run, tmp_path):
    write(tmp_path, "02_first", TRAINS + FAILS_ONCE)
    assert ends(run("02")[1]) == ["FAILED"]
    assert ends(run("02")[1]) == ["ok"]
    assert (tmp_path / "build/runs/sft/steps").read_text() == "xx", "the run was kept"


def test_fingerprint_covers_helpers_data_preset_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(walk, "ROOT", tmp_path)
    (tmp_path / "helpers/losses").mkdir(parents=True)
    (tmp_path / "data/tiny/base").mkdir(parents=True)
    seen = {walk.fingerprint()}
    for name in ("helpers/losses/means.py", "data/tiny/base/model.safetensors"):
        for content in ("one", "two"):
            (tmp_path / name).write_text(content)
            seen.add(walk.fingerprint())
    for name, value in (("COURSE_SEED", "7"), ("COURSE_PRESET", "v5e-1")):
        monkeypatch.setenv(name, value)
        seen.add(walk.fingerprint())
    assert len(seen) == 7
