"""Tables that notebooks show of data/results are those of the files as they are now."""

import ast

import course_notebooks as course
import pytest

from helpers.course import choices, results
from helpers.recipes import presets
from scripts import tables


def rows_of(text):
    """The lines of a Markdown table, its rule left out."""
    return [line for line in text.splitlines() if line.startswith("| ")]


def shown(cell):
    """The lines of all tables that a cell has in its outputs."""
    texts = [output.get("data", {}).get("text/markdown", "") for output in cell.outputs]
    return rows_of("\n".join(map("".join, texts)))


def calls(cell, name):
    """Calls of `results.<name>` in a cell, as expressions."""
    return [
        node
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"results.{name}"
    ]


def cells_that_call(name):
    return [
        pytest.param(cell, id=f"{number}: {cell.source[:30]!r}")
        for number in course.NUMBERS
        for cell in course.code_cells(course.read(number))
        if calls(cell, name)
    ]


def compiled_today():
    """Every line that `results.compiled` has of any program."""
    texts = [results.compiled(name) for name in presets.PRESETS]
    for row in tables.read(results.TPU_FIT):
        same = {name: row[name] for name in ("model", "pictures", "trained")}
        texts.append(results.compiled(row["topology"], **same))
    return {line for text in texts for line in rows_of(text)}


@pytest.mark.parametrize("cell", cells_that_call("compiled"))
def test_what_the_compiler_says_is_what_its_table_says(cell):
    found = shown(cell)
    assert len(found) > 1 and set(found) <= compiled_today()
    (call,) = calls(cell, "compiled")
    if isinstance(call.args[0], ast.Constant) and not call.keywords:
        assert found == rows_of(results.compiled(call.args[0].value))


def test_the_models_to_choose_from_are_those_of_the_table():
    cells = course.code_cells(course.read("15"))
    (cell,) = [cell for cell in cells if "course.choices()" in cell.source]
    assert shown(cell) == rows_of(choices())


@pytest.mark.parametrize("cell", cells_that_call("real"))
def test_what_a_real_model_got_right_is_what_its_table_says(cell):
    (call,) = calls(cell, "real")
    asked = {part.arg: ast.literal_eval(part.value) for part in call.keywords}
    seeds = [ast.literal_eval(part) for part in call.args]
    assert shown(cell) == rows_of(results.real(*seeds, **asked))


def test_notebook_08_says_how_far_the_clip_binds_where_07_breaks():
    printed = "".join(
        output.get("text", "")
        for cell in course.code_cells(course.read("07"))
        for output in cell.outputs
    )
    logged = {
        column: [float(number) for number in line.split()[-4:]]
        for line in printed.splitlines()
        for column in ("clip_fraction", "reward/correct")
        if line.startswith("rate × 12") and column in line
    }
    held = [f"{100 * share:.1f}" for share in logged["clip_fraction"]]
    right = [f"{share:.0%}" for share in logged["reward/correct"]]
    text = " ".join(" ".join(cell.source for cell in course.read("08").cells).split())
    assert f"it holds back {', '.join(held[:3])} and {held[3]}% of the tokens" in text
    assert f"the right samples fall from {right[0]} to {right[3]} all the same" in text
