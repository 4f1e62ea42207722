"""The house: rooms import one way, doors are small, the heart is short."""

import ast
import json
import pathlib
import re

import pytest

import helpers
from scripts import house

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "helpers"
HEART = ("losses", "training", "generation", "rewards")


def shown(room):
    """The names in a door's __all__, and the lines of the door they stand on."""
    text = (PACKAGE / room / "__init__.py").read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            lines = text.splitlines()
            return {e.value: lines[e.lineno - 1] for e in node.value.elts}
    return {}


def test_every_folder_is_a_room_and_nothing_stands_beside_them():
    here = {p.name for p in PACKAGE.iterdir() if p.name != "__pycache__"}
    assert here == {"__init__.py", *helpers.ROOMS} and len(here) <= 19


@pytest.mark.parametrize("room", helpers.ROOMS)
def test_imports_never_run_up(room):
    before = set(helpers.ROOMS[: helpers.ROOMS.index(room)])
    assert house.imports(room) <= before


def test_an_import_is_seen_however_it_is_written():
    assert house._rooms(["helpers"], ["text", "model"]) == {"text", "model"}
    assert house._rooms(["helpers.text.chat"], ["decode"]) == {"text"}
    assert house._rooms(["helpers.app.assistant", "numpy"], []) == {"app"}


@pytest.mark.parametrize("room", helpers.ROOMS)
def test_a_door_shows_three_to_ten_names_with_a_line_each(room):
    names = shown(room)
    assert 3 <= len(names) <= 10
    assert all("  # " in line for line in names.values()), "each says what it is"
    for node in ast.parse((PACKAGE / room / "__init__.py").read_text()).body[1:]:
        if isinstance(node, ast.ImportFrom):
            assert node.module.split(".")[:2] == ["helpers", room], "its own names only"
        else:
            assert isinstance(node, ast.Assign) and node.targets[0].id == "__all__"


def test_no_file_shows_names_of_another_room():
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        assigned = [n for n in tree.body if isinstance(n, ast.Assign)]
        lists = [n for n in assigned if getattr(n.targets[0], "id", "") == "__all__"]
        if file.name != "__init__.py":
            room = file.relative_to(PACKAGE).parts[0]
            imported = {
                alias.asname or alias.name: node.module
                for node in tree.body
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for name in [e.value for n in lists for e in n.value.elts]:
                home = imported.get(name, f"helpers.{room}")
                assert home.split(".")[1] == room, f"{file} shows {name}"


def test_notebooks_import_through_doors():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] != "code":
                continue
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    parts = node.module.split(".")
                    if parts[0] == "helpers" and len(parts) > 1:
                        _, room, *inner = parts
                        assert not inner, f"{path.name}: {node.module}"
                        for alias in node.names:
                            file = PACKAGE / room / f"{alias.name}.py"
                            assert alias.name in shown(room) or file.exists()


def code_lines(text):
    """How many lines hold code: no docstring, comment or empty line."""
    told = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                told |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(bool(x) and x[0] != "#" and number not in told for number, x in lines)


def test_lines_of_code_are_counted_without_what_explains_them():
    text = '"""Says.\n\nMore."""\n\n# why\ndef f():\n    """What."""\n    return 1\n'
    assert code_lines(text) == 2


def test_the_heart_is_read_in_an_hour():
    files = [file for room in HEART for file in (PACKAGE / room).rglob("*.py")]
    assert sum(code_lines(file.read_text()) for file in files) < 3000


def test_the_page_of_the_app_is_read_in_a_break():
    """All that `make app` adds to models, log and servers, its look left out."""
    files = [*(PACKAGE / "app").glob("food_*.py"), PACKAGE / "app" / "meal_view.py"]
    assert len(files) == 6
    assert sum(code_lines(file.read_text()) for file in files) <= 400


def test_the_table_of_rooms_is_the_one_in_the_code():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert page == house.filled(page), "run `python -m scripts.house`"


def test_whatever_is_said_of_a_room_or_file_is_of_one_that_is_there():
    """In prose, and in programs that stand as text in a test, which nothing imports."""
    folders = ("helpers", "notebooks", "scripts", "tests", "docs", "data")
    files = [*ROOT.glob("*.md"), *ROOT.glob("Makefile")]
    for folder in folders:
        for suffix in ("py", "md", "ipynb"):
            files += (ROOT / folder).rglob(f"*.{suffix}")
    # These two build a repository of their own.
    files = [
        f for f in files if f.name not in ("test_release_check.py", "test_house.py")
    ]
    assert len(files) > 300
    wrong = [
        f"{file}: {said}" for file in files for said in strangers(file.read_text())
    ]
    assert wrong == []


def strangers(text):
    """Mentions of rooms and files of `helpers` that are not there."""
    rooms = re.findall(r"\bhelpers[./]([a-z]\w*)", text)
    for names in re.findall(r"^\s*from helpers import ([a-z][\w, ]*)$", text, re.M):
        rooms += [name.split(" as ")[0].strip() for name in names.split(",")]
    paths = re.findall(r"\bhelpers/[\w/]+\.py\b", text)
    yield from sorted({*rooms} - {*helpers.ROOMS, "py"})
    yield from (path for path in paths if not (ROOT / path).exists())


def test_a_stranger_is_found():
    said = "from helpers import app, blocks\nsee helpers/model/none.py, helpers.tools"
    assert list(strangers(said)) == ["blocks", "helpers/model/none.py"]
    assert list(strangers("helpers.syllabus")) == ["syllabus"]
