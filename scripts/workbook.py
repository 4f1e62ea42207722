"""Copies of the notebooks to learn from, whose answers are not there yet: `make lab`.

The committed notebooks show every output. A guess is only a guess before the output is
seen, so in a copy the outputs between a **Predict** and its **Explain** are cleared. A
copy that is already there is the learner's own, and stays as it is.
"""

import pathlib

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORKBOOK = ROOT / "workbook"  # beside notebooks/, so that their links work


def clear_answers(notebook: nbformat.NotebookNode) -> None:
    """Clears the outputs that answer a prediction, in place."""
    guessing = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            asked, answered = map(cell.source.rfind, ("**Predict", "**Explain"))
            if asked != answered:  # one of the two is there: the later one counts
                guessing = asked > answered
        elif guessing:
            cell.outputs, cell.execution_count = [], None


def main(notebooks=ROOT / "notebooks", workbook=WORKBOOK) -> None:
    """Makes the copies that the workbook lacks."""
    workbook.mkdir(exist_ok=True)
    for path in sorted(notebooks.glob("*.ipynb")):
        if (workbook / path.name).exists():
            continue
        notebook = nbformat.read(path, as_version=4)
        clear_answers(notebook)
        nbformat.write(notebook, workbook / path.name)


if __name__ == "__main__":
    main()
