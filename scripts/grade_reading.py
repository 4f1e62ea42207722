"""Finds, in a student's file, the cells that the exercises of the course need.

The student's file is read as JSON and never trusted: it may lack cells, have more of
them, or be no notebook at all. What is checked, and how, comes from the course's own
notebook.
"""

import ast
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import stat

LARGEST = 20 * 2**20  # bytes of a student's file
NO_NOTEBOOK = (ValueError, RecursionError, LookupError, TypeError, AttributeError)
HEADING = re.compile(r"^### (?:Exercise )?(\d+ · .*)$", re.MULTILINE)
TITLE = re.compile(r"^# (\d\d\w?) · ", re.MULTILINE)


class Unreadable(ValueError):
    """A student's file that is none of the course's notebooks; says why."""


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise of the course.

    `title` is its heading, `stub` and `check` the sources of its two cells, `names`
    what the check takes of the answer.
    """

    title: str
    stub: str
    check: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Lesson:
    """What grading needs of one of the course's notebooks."""

    file: str
    imports: str
    exercises: tuple[Exercise, ...]


def cells(path: pathlib.Path) -> list[tuple[str, str, set]]:
    """(type, source, tags) of each cell of a file.

    Raises:
      Unreadable: it is no notebook.
    """
    try:
        found = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(found, "rb") as file:
            told = os.fstat(found)
            if not stat.S_ISREG(told.st_mode) or told.st_size > LARGEST:
                raise Unreadable(f"no file of at most {LARGEST >> 20} MiB")
            notebook = json.loads(file.read())
        return [_cell(cell) for cell in notebook["cells"]]
    except Unreadable:
        raise
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    except NO_NOTEBOOK as error:
        raise Unreadable("is no notebook: not the JSON of one") from error


def _cell(cell):
    source, metadata = cell.get("source", ""), cell.get("metadata") or {}
    text = source if isinstance(source, str) else "".join(map(str, source))
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return str(cell["cell_type"]), text, {str(tag) for tag in tags or ()}


def lesson(path: pathlib.Path) -> Lesson:
    """What there is to check in one of the course's own notebooks."""
    found, titles, imports, text = [], [], "", ""
    own = cells(path)
    for (kind, source, tags), after in zip(own, [*own[1:], None], strict=True):
        if kind == "markdown":
            titles += HEADING.findall(source)
            text += source
        elif "imports" in tags:
            imports = source
        elif "exercise" in tags and after is not None:
            check = after[1]
            found.append(Exercise(titles[-1], source, check, _names(check)))
    return Lesson(path.stem, imports, tuple(found))


def _names(check):
    """The names that a check is called with, in `checks.check_it(name, gold="36")`."""
    call = ast.parse(check, mode="eval").body
    names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
    return tuple(dict.fromkeys(name for name in names if name != "checks"))


def which(path: pathlib.Path, own: list, course: pathlib.Path) -> pathlib.Path:
    """The course's notebook that a student's file is one of.

    By the number in its title, else by its file's name.

    Raises:
      Unreadable: it is none.
    """
    texts = [source for kind, source, _ in own if kind == "markdown"]
    numbers = TITLE.findall("\n".join(texts))[:1] + re.findall(r"\d\d\w?", path.name)
    for number in numbers:
        for found in sorted(course.glob(f"{number}_*.ipynb")):
            return found
    raise Unreadable("is none of the course's notebooks: neither title nor name says")


def answer(own: list, exercise: Exercise) -> str | None:
    """The student's cell of an exercise; None where it is missing.

    It is the last one before the check that makes all the names which the check takes,
    else the one tagged as an exercise right before the check; where the check is gone
    too, the last one of all that makes the names.
    """
    best = above = None
    for kind, source, tags in own:
        if kind != "code":
            continue
        if source.strip() == exercise.check.strip() and (best or above) is not None:
            return best if best is not None else above
        above = source if "exercise" in tags else None
        if set(exercise.names) <= _made(source):
            best = source
    return best


def _made(source):
    """The names that a cell defines or assigns at its top level."""
    try:
        body = ast.parse(python(source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = re.findall(r"^(?:def |class )?(\w+)", source, re.MULTILINE)
        return {*words, *re.findall(r"^\w+(?:, *(\w+))+ *=", source, re.MULTILINE)}
    made = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            named = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            made |= {n.id for n in named if isinstance(n.ctx, ast.Store)}
    return made


def python(source: str) -> str:
    """A cell without the lines that only a notebook understands: !, % and ?.

    What is Python stays as it is, whatever the lines of its texts begin or end with.
    """
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        ast.parse(source)
        return source
    return "\n".join(
        "pass" if line.startswith(("!", "%", "?")) or line.endswith("?") else line
        for line in source.splitlines()
    )


def untouched(source: str, exercise: Exercise) -> bool:
    """Whether a cell is still the stub, whatever its comments and spaces."""
    try:
        return ast.dump(ast.parse(source)) == ast.dump(ast.parse(exercise.stub))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
