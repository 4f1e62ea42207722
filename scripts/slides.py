"""Slides of all notebooks, to teach from: `make slides` writes build/slides/*.html.

Every heading begins a slide. Below it each cell is a slide of its own, so that you can
wait between a prediction, its run and its explanation. The pages fetch reveal.js from
the network.
"""

import pathlib

import nbformat
from nbconvert import SlidesExporter

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = {"badges", "road", "setup", "imports"}


def slide_type(cell) -> str:
    """Which kind of slide of reveal.js a cell is."""
    if SKIPPED & set(cell.metadata.get("tags", ())):
        return "skip"
    heading = cell.cell_type == "markdown" and cell.source.startswith("#")
    return "slide" if heading else "subslide"


def main() -> None:
    """Converts the committed notebooks."""
    exporter = SlidesExporter(reveal_scroll=True)
    folder = ROOT / "build" / "slides"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            cell.metadata["slideshow"] = {"slide_type": slide_type(cell)}
        page, _ = exporter.from_notebook_node(notebook)
        (folder / f"{path.stem}.html").write_text(page)
    print(f"{folder.relative_to(ROOT)}/*.html")


if __name__ == "__main__":
    main()
