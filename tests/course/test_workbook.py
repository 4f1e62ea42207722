"""The learner's copies: nothing answers a prediction, and no work is overwritten."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from helpers import runtime
from scripts import workbook

NOTEBOOKS = runtime.ROOT / "notebooks"


def test_outputs_between_a_guess_and_its_explanation_are_cleared(tmp_path):
    def code(source):
        out = new_output("stream", text=source)
        return new_code_cell(source, outputs=[out], execution_count=1)

    cells = [
        code("before"),
        new_markdown_cell("**Predict.** How many?"),
        code("answer 1"),
        new_markdown_cell("And as a figure:"),
        code("answer 2"),
        new_markdown_cell("**Explain.** This is why. **Predict.** And now?"),
        code("answer 3"),
        new_markdown_cell("**Explain.** Because."),
        code("after"),
    ]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "01.ipynb")
    copy = tmp_path / "workbook" / "01.ipynb"
    workbook.main(tmp_path / "notebooks", copy.parent)
    made = nbformat.read(copy, as_version=4)
    assert [cell.source for cell in made.cells] == [cell.source for cell in cells]
    shown = [cell.source for cell in made.cells if cell.get("outputs")]
    assert shown == ["before", "after"]

    copy.write_text("the learner's own")
    workbook.main(tmp_path / "notebooks", copy.parent)
    assert copy.read_text() == "the learner's own"


def test_every_prediction_of_the_course_is_a_guess_in_the_workbook(tmp_path):
    workbook.main(NOTEBOOKS, tmp_path)
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = nbformat.read(tmp_path / path.name, as_version=4).cells
        for cell, following in zip(cells, cells[1:], strict=False):
            asked, answered = map(cell.source.rfind, ("**Predict", "**Explain"))
            if asked > answered and following.cell_type == "code":
                assert not following.outputs, f"{path.name}: {following.source[:60]}"
