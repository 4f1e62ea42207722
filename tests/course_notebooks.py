"""Reading the course's notebooks: cells by tag, words of prose, exercises."""

import dataclasses
import linecache
import pathlib
import re
import sys

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
sys.path.insert(0, str(FOLDER))

# The notebooks of the course. Written out here, and not taken from the syllabus, so
# that neither can lose one unnoticed.
CORE = "00 02 03 04 05 06 07 09 10 11 15"
NUMBERS = (*CORE.split(), *"01 04b 08 08b 10b 12 13 13b 13c 14".split())


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise: source of its stub and check, text of its hint and solution."""

    stub: str
    check: str
    hint: str | None
    solutions: list[str]


def run(source: str, names: dict) -> None:
    """Runs a cell as Jupyter does: the source of its functions can be read."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), names)


def with_settings(source: str, **values) -> str:
    """A cell of settings with other values."""
    for name, value in values.items():
        line = f"{name} = {value!r}"
        source, count = re.subn(rf"(?m)^{name} = .*$", lambda _, to=line: to, source)
        assert count == 1, f"{name} is set {count} times"
    return source


def path(number: str) -> pathlib.Path:
    """The file of a notebook; fails the test where it is missing."""
    matches = sorted(FOLDER.glob(f"{number}_*.ipynb"))
    assert len(matches) == 1, (
        f"notebooks/{number}_*.ipynb: {len(matches)} files, not one"
    )
    return matches[0]


def read(number: str) -> nbformat.NotebookNode:
    """A notebook as it is committed."""
    return nbformat.read(path(number), as_version=4)


def tags(cell) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def tagged(notebook, tag: str) -> list:
    """All cells with this tag."""
    return [cell for cell in notebook.cells if tag in tags(cell)]


def code_cells(notebook) -> list:
    """Code cells that hold code."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.strip()
    ]


def exercises(notebook) -> list[Exercise]:
    """The exercises in order: stub, check, and what is folded in the cells after."""
    collected = []
    for i, cell in enumerate(notebook.cells):
        if "exercise" not in tags(cell):
            continue
        after = notebook.cells[i + 1 :]
        is_check = after and "check" in tags(after[0])
        folded = _folded(after[1:]) if is_check else ""
        collected.append(
            Exercise(
                stub=cell.source,
                check=after[0].source if is_check else "",
                hint=next(iter(_details(folded, "Hint")), None),
                solutions=[
                    code
                    for text in _details(folded, "Solution")
                    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
                ],
            )
        )
    return collected


def _folded(cells) -> str:
    """The text of the markdown cells up to the next code cell."""
    texts = []
    for cell in cells:
        if cell.cell_type != "markdown":
            break
        texts.append(cell.source)
    return "\n".join(texts)


def _details(text: str, summary: str) -> list[str]:
    pattern = rf"<details>\s*<summary>{summary}[^<]*</summary>(.*?)</details>"
    return re.findall(pattern, text, re.DOTALL)
