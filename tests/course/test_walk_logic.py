"""What `make course` runs, says and keeps; cells run here, without kernels."""

import contextlib
import io
import os
import re
import time
import traceback

import course_notebooks as course  # finds notebooks/walk.py, too
import nbformat
import pytest
import walk
import walk_line
from nbclient.exceptions import CellExecutionError

from helpers.course.syllabus import Lesson

LESSONS = {
    "02": Lesson("02_first", "First", "first", {"laptop": 1}, ("sft",)),
    "03": Lesson("03_second", "Second", "second", {"laptop": 1}),
    "04": Lesson("04_third", "Third", "third", {"laptop": 1}),
    "13": Lesson("13_aside", "Not of the walk", "aside", {"laptop": 1}, walk=False),
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
    """Stands for publish.execute: runs the cells here."""
    names = {}
    for index, cell in enumerate(notebook.cells):
        on_cell(index)
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(cell.source, names)
        except Exception as error:
            said = traceback.format_exc(), type(error).__name__, str(error)
            raise CellExecutionError(*said) from error
        finally:
            on_text(out.getvalue())
            cell.outputs = [nbformat.v4.new_output("stream", text=out.getvalue())]


def write(name, code):
    """Into the current folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbformat.write(notebook, f"{name}.ipynb")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Walks in tmp_path with these arguments; gives exit status, output and errors."""
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    for module in (walk, walk.publish):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
        monkeypatch.setattr(module, "LESSONS", LESSONS)
    monkeypatch.setattr(walk.publish, "execute", execute)
    monkeypatch.setattr(walk, "fingerprint", lambda: "helpers and data as they are")
    monkeypatch.setattr(walk.results, "walk", lambda table: None)
    monkeypatch.setattr(walk.plotting, "png", lambda figure: b"")
    os.environ |= {"COURSE_BUILD": str(tmp_path / "build"), "COURSE_SEED": "0"}
    write("02_first", TRAINS)
    for name in ("03_second", "04_third", "13_aside"):
        write(name, f"print({name!r})")

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
    """(name, how it ended) of every notebook that ended, in order."""
    return re.findall(r"^(\w+) +\d+ s  (ok, reused|ok|FAILED)", out, re.MULTILINE)


def test_reuses_what_is_unchanged_and_nothing_else(run, tmp_path):
    names = [row.file for row in LESSONS.values() if row.walk]
    assert ends(run()[1]) == [(name, "ok") for name in names]
    status, out, _ = run()
    assert status == 0 and ends(out) == [(name, "ok, reused") for name in names]
    assert (tmp_path / "build/runs/sft/steps").read_text() == "x"

    write("03_second", "print('changed')")
    assert ends(run()[1]) == list(zip(names, ("ok, reused", "ok", "ok"), strict=True))

    (tmp_path / "build/results.json").unlink()
    _, out, _ = run()
    assert "| SFT |" in out, "a lost row is made again"
    assert ends(out) == [(names[0], "ok"), *((n, "ok, reused") for n in names[1:])]

    write("02_first", TRAINS + "\n# changed")
    _, out, _ = run()
    assert "reused" not in out, "what comes after a change runs again"
    assert (tmp_path / "build/runs/sft/steps").read_text() == "x", "trained by old code"


def test_one_notebook_alone_counts_for_the_walk_and_the_other_way_round(run):
    run("02")
    assert ends(run()[1])[0] == ("02_first", "ok, reused")
    assert ends(run("4")[1]) == [("04_third", "ok, reused")]


@pytest.mark.parametrize(
    "said", ["3", "03", "03_second", "notebooks/03_second.ipynb", "03_second.ipynb"]
)
def test_a_notebook_can_be_named_in_several_ways(run, said):
    assert ends(run(said)[1]) == [("03_second", "ok")]


def test_several_run_in_the_order_of_the_course_and_once(run):
    _, out, _ = run("13", "4", "03_second", "3")
    assert [name for name, _ in ends(out)] == ["03_second", "04_third", "13_aside"]


@pytest.mark.parametrize("said", ["99", "03_secon", "second", "03_", "-3", "", "٣"])
def test_a_name_of_no_notebook_is_refused_with_those_there_are(run, said):
    status, out, err = run(said)
    assert status == 2 and out == ""
    assert said == "-3" or "03_second" in err and repr(said) in err


def test_help_says_how_a_notebook_is_named(run):
    status, out, _ = run("--help")
    assert status == 0 and "07_grpo" in out and "COURSE_SEED" in out


@pytest.mark.parametrize("name, value", [("SEED", "abc"), ("PRESET", "v99")])
def test_a_setting_that_cannot_be_is_refused_in_one_line_before_anything_runs(
    run, tmp_path, name, value
):
    os.environ[f"COURSE_{name}"] = value
    status, out, err = run()
    assert status == 1 and out == "" and value in err
    assert len(err.splitlines()) == 1 and f"COURSE_{name}" in err
    assert not (tmp_path / "build").exists()


class Clock:
    """Stands for time.monotonic; cells move it on."""

    now = 0.0

    def __call__(self):
        return self.now


def test_minutes_are_added_up_over_the_runs(run, monkeypatch):
    monkeypatch.setattr(walk.time, "monotonic", Clock())
    takes = "import time\ntime.monotonic.now += {}\n"
    write("02_first", takes.format(60) + TRAINS)
    write("03_second", takes.format(90) + FAILS_ONCE)
    for said in (
        "2.5 minutes.",
        "4.0 minutes, 1.5 of them now.",
        "4.0 minutes, 0.0 of",
    ):
        assert f"The walk took {said}" in run()[1]


def test_after_a_failed_notebook_the_others_run_and_it_is_named_at_the_end(run):
    write("02_first", "print('before')\nreward = 1 / 0")
    write("03_second", 'from helpers import course\ncourse.stage_folder("sft")')
    status, out, err = run()
    assert status == 1
    assert ends(out) == [
        ("02_first", "FAILED"),
        ("03_second", "ok"),
        ("04_third", "ok"),
    ]
    assert re.search(r"03_second +uses the shipped \S*data/tiny/sft, because 02_f", out)
    at_the_end = err[err.index("Failed: 1 of") :]
    assert "02_first: ZeroDivisionError: division by zero" in at_the_end
    assert "build/notebooks/02_first.ipynb" in at_the_end
    assert "03_second" not in at_the_end


def test_the_model_of_a_failed_notebook_is_used_if_it_saved_one(run):
    write("02_first", TRAINS + "\nassert False, 'too late'")
    write("03_second", '# course.stage_folder("sft") is used here')
    out = run()[1]
    assert re.search(r"03_second +uses the sft that 02_first saved before it fail", out)


def test_what_used_a_shipped_stage_runs_again_once_there_is_an_own(run):
    write("02_first", FAILS_ONCE + TRAINS)
    write("03_second", '# course.stage_folder("sft") is used here')
    assert run()[0] == 1
    assert ends(run()[1])[1:] == [("03_second", "ok"), ("04_third", "ok, reused")]
    assert {how for _, how in ends(run()[1])} == {"ok, reused"}


def test_a_build_folder_that_is_deleted_meanwhile_is_named_in_two_lines(run):
    write("03_second", "import shutil\nshutil.rmtree('build')")
    status, out, err = run()
    assert status == 1 and "build was deleted" in err and "03_second" in err
    assert len(err.strip().splitlines()) == 1 and "04_third" not in out
    write("03_second", "print('mended')")
    status, out, _ = run()
    assert status == 0 and "| SFT |" in out


def test_the_stages_of_the_course_have_the_makers_one_knows():
    used = {number: walk.makers(number) for number in course.NUMBERS}
    for number, expected in {
        "04": {},
        "05": {"sft": "04"},
        "07": {"sft": "04"},
        "08": {"sft": "04", "grpo": "07"},
        "10": {"food_sft": "09"},
        "11": {"grpo": "07"},
    }.items():
        assert {s: m for s, m in used[number].items() if s != "base"} == expected


PRINTED = "step 0/48 · compiling the update\n"
STEP = "step 24/48 · loss -0.0123 · reward 0.613 · 5,234 tokens/s · 0:41 left"


@pytest.mark.parametrize(
    "printed, said",
    [
        ("nothing of it", None),
        (PRINTED, "step 0 of 48 · compiling the update"),
        (PRINTED + STEP, "step 24 of 48 · reward 0.613 · 0:41 left"),
        ("\r" + STEP + "\r" + STEP.replace("24", "25"), "step 25 of 48"),
        ("step 3/9 · loss 1.5 · 7 tokens/s · 1:02 left\nx", "step 3 of 9 · loss 1.5"),
        ("step 48/48 · loss 1.5 · 7 tokens/s · 0:00 left", "all 48 steps done"),
    ],
)
def test_what_a_training_prints_becomes_a_short_line(printed, said):
    found = walk_line.training(printed)
    assert found == said or said and found.startswith(said + " · ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_trainings_progress_and_a_log_start_and_end(
    run, monkeypatch
):
    write(
        "03_second",
        f"import time\nprint({STEP!r})\ntime.sleep(0.2)",
    )
    _, out, _ = run("3")
    lines = [line for line in out.splitlines() if line.startswith("03_second")]
    assert len(lines) == 2 and "started" in lines[0] and lines[1].endswith(" ok")

    notebook = nbformat.read("03_second.ipynb", as_version=4)
    heading = nbformat.v4.new_markdown_cell("## Train\nAnd look.")
    line = walk_line.Line("03_second", [heading, *notebook.cells])
    line.cell(0)
    assert line.text().endswith("cell 1 of 2  Train")
    line.cell(1)
    line.printed(STEP)
    assert line.text().endswith("cell 2 of 2  step 24 of 48 · reward 0.613 · 0:41 left")
    monkeypatch.setenv("COLUMNS", "50")
    terminal = Terminal()
    monkeypatch.setattr(walk_line, "EVERY", 0.01)
    with contextlib.redirect_stdout(terminal), line:
        while terminal.getvalue().count("cell 2 of 2") < 3:
            time.sleep(0.01)
    drawn = terminal.getvalue().split("\r\033[K")[1:]
    assert all(len(text) < 50 for text in drawn)
