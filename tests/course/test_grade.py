"""`make grade` tells solutions from stubs; a hostile cell costs its own row."""

import csv
import sys

import nbformat
import pytest

from scripts import grade

STUBS = ("guess = None  # your turn", "def twice(x):\n    raise NotImplementedError")
CHECKS = (
    'check.check_properties({"be 1": lambda: guess == 1})',
    'check.check_properties({"double 3": lambda: twice(3) == 6})',
)
STUDENTS = {
    "wrong": ("guess = 2", STUBS[1]),
    "hangs": (
        "import time\nwhile True:\n    time.sleep(1)",
        "def twice(x):\n    return x + x",
    ),
    "exits": ("guess = 1", "import os\nos._exit(0)"),
}


def save(path, answers):
    """Saves a toy notebook with these answers in its two exercises."""
    new = nbformat.v4
    cells = [
        new.new_markdown_cell("# 07 · Toy"),
        new.new_code_cell(
            "from helpers.exercises import check", metadata={"tags": ["imports"]}
        ),
    ]
    for answer, check in zip(answers, CHECKS, strict=True):
        cells.append(new.new_code_cell(answer, metadata={"tags": ["exercise"]}))
        cells.append(new.new_code_cell(check, metadata={"tags": ["check"]}))
    nbformat.write(new.new_notebook(cells=cells), path)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The rows of the students' notebooks, by file name."""
    root = tmp_path_factory.mktemp("class")
    for folder in ("course", "students"):
        (root / folder).mkdir()
    save(root / "course" / "07_toy.ipynb", STUBS)
    for name, answers in STUDENTS.items():
        save(root / "students" / f"{name}.ipynb", answers)
    (root / "students" / "broken.ipynb").write_text("{")
    out = root / "grades.csv"
    command = ["grade", str(root / "students"), "--course", str(root / "course")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [*command, "--out", str(out), "--seconds", "10"])
        grade.main()
    with open(out, newline="") as file:
        table = list(csv.DictReader(file))
    return {
        name: [row for row in table if row["file"] == f"{name}.ipynb"]
        for name in (*STUDENTS, "broken")
    }


def results(rows):
    return [row["result"] for row in rows]


@pytest.mark.slow
def test_wrong_and_unwritten_answers_get_their_own_result(rows):
    assert results(rows["wrong"]) == ["not yet", "not written"]
    assert rows["wrong"][0]["message"] == "Not yet: it should be 1."


@pytest.mark.slow
def test_a_cell_that_hangs_or_ends_its_process_costs_its_own_row(rows):
    assert results(rows["hangs"]) == ["timeout", "right"]
    assert results(rows["exits"]) == ["right", "error"]
    assert results(rows["broken"]) == ["error"]


def test_a_spreadsheet_takes_no_cell_for_a_formula():
    assert grade.cell_text("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert grade.cell_text("a\nb") == "a b"
