"""The notebooks keep the course's rules, and the rules catch what breaks them."""

import copy

import course_notebooks as course
import nbformat
import notebook_gates as gates
import publish
import pytest
import walk

from helpers.course.syllabus import LESSONS
from helpers.recipes.presets import PRESETS


@pytest.mark.parametrize("gate", gates.GATES, ids=lambda gate: gate.__name__)
@pytest.mark.parametrize("number", course.NUMBERS)
def test_notebook(number, gate):
    gate(course.read(number), number)


def test_the_syllabus_has_these_notebooks_and_no_others_lie_around():
    assert tuple(LESSONS) == course.NUMBERS
    expected = {f"{lesson.file}.ipynb" for lesson in LESSONS.values()}
    assert {file.name for file in course.FOLDER.glob("*.ipynb")} == expected


def test_a_number_may_end_in_a_letter():
    assert publish.number_of(course.path("08b")) == "08b"
    for text in ("8b", "08b_preferences", "notebooks/08b_preferences.ipynb"):
        assert walk.notebook_number(text) == "08b"
    assert walk.notebook_number("0") == "00"


def test_minutes_keep_to_the_budget():
    laptop = {n: lesson.minutes["laptop"] for n, lesson in LESSONS.items()}
    # 15 takes a real model where you run it, and a small one under nbval.
    assert laptop.pop("15") <= 8
    assert max(laptop.values()) <= 3 and sum(laptop.values()) <= 38
    walk = [minutes for n, minutes in laptop.items() if LESSONS[n].walk]
    assert sum(walk) <= 20
    assert all(lesson.minutes.get("v5e-1", 0) <= 45 for lesson in LESSONS.values())
    for name, row in PRESETS.items():
        if name in LESSONS["07"].minutes:
            assert row.minutes == LESSONS["07"].minutes[name]


def _widget_output(notebook):
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    course.code_cells(notebook)[2].outputs.append(
        nbformat.v4.new_output("display_data", data=data)
    )


def _image_without_alt(notebook):
    output = nbformat.v4.new_output("display_data", data={"text/html": "<img src=x>"})
    course.code_cells(notebook)[2].outputs.append(output)


def _old_alt(notebook):
    """A cell that was run when it said something else."""
    cell = course.code_cells(notebook)[2]
    cell.source = 'plotting.show(fig, alt=f"Rising from {low:.1f} to {high:.1f}.")'
    image = '<img alt="Falling from 0.1 to 0.2." src=x>'
    output = nbformat.v4.new_output("display_data", data={"text/html": image})
    cell.outputs.append(output)


def _error(notebook):
    output = nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])
    course.code_cells(notebook)[2].outputs.append(output)


def _local_path(notebook):
    output = nbformat.v4.new_output("stream", name="stdout", text="in /home/ann/x")
    course.code_cells(notebook)[2].outputs.append(output)


def _source(index, text):
    def change(notebook):
        course.code_cells(notebook)[index].source = text

    return change


def _replace(old, new):
    def change(notebook):
        for cell in notebook.cells:
            cell.source = cell.source.replace(old, new)

    return change


def _run_twice(notebook):
    course.code_cells(notebook)[3].execution_count = 40


def _widget_state(notebook):
    notebook.metadata["widgets"] = {}


BROKEN = {
    "widget state": (gates.is_valid, _widget_state),
    "run out of order": (gates.is_executed_in_order, _run_twice),
    "saved error": (gates.is_executed_in_order, _error),
    "widget view": (gates.outputs_are_portable, _widget_output),
    "no alt text": (gates.outputs_are_portable, _image_without_alt),
    "old alt text": (gates.alts_are_of_this_code, _old_alt),
    "local path": (gates.outputs_are_portable, _local_path),
    "long cell": (gates.cells_are_short, _source(3, "x = 1\n" * 26)),
    "shell line": (gates.has_no_shell_lines, _source(3, "!pip install x")),
    "magic": (gates.has_no_shell_lines, _source(3, "%time f()")),
    "another preset": (
        gates.keeps_its_settings,
        _source(5, "for preset in (0, 1):\n    print(preset)"),
    ),
    "old badge": (gates.opens_as_all_do, _replace("/blob/v", "/blob/old")),
    "edited set-up": (gates.opens_as_all_do, _replace("check=True", "check=False")),
    "time by hand": (gates.opens_as_all_do, _replace("laptop ", "laptop 1")),
    "no hint": (gates.has_exercises, _replace("<summary>Hint", "<summary>Idea")),
    "no solution": (gates.has_exercises, _replace("```python", "```")),
    "unknown module": (
        gates.names_of_helpers_exist,
        _replace("import plotting", "import magic"),
    ),
    "unknown name": (
        gates.names_of_helpers_exist,
        _replace("plotting.", "plotting.no_"),
    ),
}


@pytest.mark.parametrize("gate, change", BROKEN.values(), ids=BROKEN)
def test_gate_catches(gate, change):
    good = course.read("06")
    gate(good, "06")
    broken = copy.deepcopy(good)
    change(broken)
    with pytest.raises((AssertionError, ImportError)):
        gate(broken, "06")


def test_normalising_drops_what_is_volatile_and_keeps_tags():
    notebook = course.read("06")
    cell = course.code_cells(notebook)[2]
    cell.metadata["execution"] = {"iopub.status.busy": "now"}
    progress = nbformat.v4.new_output(
        "stream", name="stdout", text="1%\r99%\rdone\nx\n"
    )
    cell.outputs = [progress]
    _widget_output(notebook)
    notebook.metadata["widgets"] = {"state": {}}
    publish.normalise(notebook, "06")
    gates.is_valid(notebook, "06")
    assert [output.text for output in cell.outputs] == ["done\nx\n"]
    assert "execution" not in cell.metadata
    assert course.tagged(notebook, "exercise")


def test_cell_ids_stay_when_a_cell_is_added():
    notebook = course.read("06")
    before = {cell.id for cell in notebook.cells}
    notebook.cells.insert(5, nbformat.v4.new_markdown_cell("New."))
    publish.normalise(notebook, "06")
    assert before < {cell.id for cell in notebook.cells}
