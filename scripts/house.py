"""Writes the table of rooms in CONTRIBUTING.md: `python -m scripts.house`.

Rooms and their order are those of `helpers.ROOMS`, what is said of each is the first
line of its door, and what it imports is read from its files.
"""

import ast
import pathlib

import helpers

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- rooms -->", "<!-- /rooms -->"


def imports(room: str) -> set[str]:
    """The other rooms that the files of a room import, in functions too."""
    found = set()
    for file in (ROOT / "helpers" / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= _rooms([node.module], [alias.name for alias in node.names])
            elif isinstance(node, ast.Import):
                found |= _rooms([alias.name for alias in node.names], [])
    return found - {room}


def _rooms(modules, names):
    """Rooms in `import a.b` or `from a import b`."""
    dotted = [f"{modules[0]}.{name}" for name in names] if names else modules
    parts = [name.split(".") for name in dotted]
    return {part[1] for part in parts if part[0] == "helpers" and len(part) > 1}


def door(room: str) -> str:
    """What the first line of a room's door says."""
    text = (ROOT / "helpers" / room / "__init__.py").read_text()
    return ast.get_docstring(ast.parse(text)).splitlines()[0]


def table() -> str:
    """The rooms in order, what each holds and which it imports, in Markdown."""
    rows = ["| room | what it holds | imports |", "|---|---|---|"]
    for room in helpers.ROOMS:
        read = imports(room)
        used = [name for name in helpers.ROOMS if name in read]
        rows.append(f"| `{room}` | {door(room)} | {', '.join(used) or '–'} |")
    return "\n".join(rows)


def filled(text: str) -> str:
    """A text with the table of now between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    page = ROOT / "CONTRIBUTING.md"
    page.write_text(filled(page.read_text()))
