"""What every notebook must keep to: one function per rule, raising AssertionError.

test_notebooks_static.py holds the course's notebooks to them, and holds the gates to
catching a notebook that breaks them.
"""

import ast
import html
import importlib
import inspect
import json
import re
import statistics

import course_notebooks as course
import nbformat
import publish

from helpers.course.syllabus import LESSONS

LINES, MEDIAN_LINES, COLUMNS = 25, 10, 88
BYTES = 1_000_000


def is_valid(notebook, number):
    """The schema holds, and the metadata is what the platforms expect, and no more."""
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "saved widget state"
    expected = {"kernelspec", "language_info"}
    if "v5e-1" in LESSONS[number].minutes:
        expected |= {"accelerator", "colab"}
        assert notebook.metadata.get("accelerator") == "TPU"
    assert set(notebook.metadata) == expected
    assert notebook.metadata.kernelspec.name == "python3"
    size = len(json.dumps(notebook))
    assert size < BYTES, f"{size / 1e6:.2f} MB"


def is_executed_in_order(notebook, number):
    """Committed as one clean run from top to bottom, without an error."""
    counts = [cell.execution_count for cell in course.code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), f"execution counts {counts}"
    for cell in course.code_cells(notebook):
        kinds = [output.output_type for output in cell.outputs]
        assert "error" not in kinds, f"saved error in {cell.source[:60]!r}"


def outputs_are_portable(notebook, number):
    """Every image has alt text, no widget views, no folder of the author's machine."""
    for cell in course.code_cells(notebook):
        for output in cell.outputs:
            data = output.get("data", {})
            for kind, text in {**data, "text": output.get("text", "")}.items():
                assert not kind.startswith("image/"), (
                    f"image without alt text, use plotting.show: {cell.source[:60]!r}"
                )
                assert "widget-view" not in kind, "widget view saved"
                _check_text(str(text))


def _check_text(text):
    for tag in re.findall(r"<img\b[^>]*>", text):
        alt = re.search(r'\balt="([^"]*)"', tag)
        assert alt and len(alt.group(1).split()) >= 5, f"poor alt text: {tag[:120]}"
    shown = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    local = re.search(r"(/(home|root|Users|work|tmp)/|[A-Z]:\\Users)", shown)
    assert not local, f"output names a local folder: {shown[:200]!r}"


def alts_are_of_this_code(notebook, number):
    """What a figure's stored alt text says is what its cell says: it was run since."""
    for cell in course.code_cells(notebook):
        data = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        shown = html.unescape("".join(data))
        for call in ast.walk(ast.parse(cell.source)) if data else ():
            if isinstance(call, ast.Call):
                for words in _alt_words(call):
                    assert words in shown, f"run it again: {words!r} is in no output"


def _alt_words(call):
    """The words of an alt text that are the same whatever was computed."""
    (alt,) = [part.value for part in call.keywords if part.arg == "alt"] or [None]
    if isinstance(alt, ast.JoinedStr):
        parts = [part for part in alt.values if isinstance(part, ast.Constant)]
    else:
        parts = [alt] if isinstance(alt, ast.Constant) else []
    return [part.value.strip() for part in parts]


def cells_are_short(notebook, number):
    """At most 25 lines and 88 columns each; half of them at most 10 lines."""
    lengths = []
    for cell in course.code_cells(notebook):
        lines = cell.source.splitlines()
        assert len(lines) <= LINES, f"{len(lines)} lines: {lines[0]!r}"
        wide = [line for line in lines if len(line) > COLUMNS]
        assert not wide, f"{len(wide[0])} columns: {wide[0]!r}"
        lengths.append(len(lines))
    assert statistics.median(lengths) <= MEDIAN_LINES, f"median of {sorted(lengths)}"


def has_no_shell_lines(notebook, number):
    """All cells are Python; `!` and `%` lines pass nbval even when they fail."""
    for cell in course.code_cells(notebook):
        for line in cell.source.splitlines():
            assert not re.match(r"\s*([!%]|\w+\s*=\s*[!%])", line), line
        ast.parse(cell.source)


def keeps_its_settings(notebook, number):
    """No later cell gives another value to what the banner's cell sets, such as seed.

    A loop over seeds did, once, and all that came after it ran with the last of them.
    """
    sources = [cell.source for cell in course.code_cells(notebook)]
    (at,) = [i for i, source in enumerate(sources) if "course.banner(" in source]
    settings = _bound(ast.parse(sources[at]))
    for source in sources[at + 1 :]:
        again = settings & _bound(ast.parse(source))
        assert not again, f"set a second time: {', '.join(sorted(again))}"


def _bound(tree) -> set:
    """The names that a cell binds itself: not those inside of functions and such."""
    inner = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
    inner += (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    names, waiting = set(), [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            if not isinstance(node, inner):
                waiting.append(node)
    return names


def opens_as_all_do(notebook, number):
    """Badges, title, card, road and set-up cell, as notebooks/publish.py has them."""
    first = notebook.cells[:4]
    for cell, tag in zip(first, ("badges", None, "card", "road"), strict=True):
        assert tag is None or tag in course.tags(cell), f"{tag} is not in its place"
    assert first[0].source == publish.badges(number)
    assert first[1].source.startswith(f"# {number} · ")
    assert first[3].source == publish.road(number)
    card = first[2].source
    assert publish.card_time(number, notebook) in card, (
        "run notebooks/publish.py: time is not current"
    )
    for line in ("- **You need:**", "- **You will be able to:**"):
        assert line in card, f"the card lacks {line}"
    (setup,) = course.tagged(notebook, "setup")
    assert setup.source == publish.SETUP.rstrip(), (
        "run notebooks/publish.py: set-up is old"
    )
    (imports,) = course.tagged(notebook, "imports")
    code = course.code_cells(notebook)
    assert code[:2] == [setup, imports], "set-up and imports are the first code cells"


def has_exercises(notebook, number):
    """Two, each with a stub, a check right after, a hint and a solution."""
    exercises = course.exercises(notebook)
    assert len(exercises) == 2, f"{len(exercises)} exercises"
    for exercise in exercises:
        name = exercise.stub.splitlines()[0]
        assert exercise.check, f"no check right after {name!r}"
        assert exercise.hint and exercise.hint.strip(), f"no hint after {name!r}"
        assert len(exercise.solutions) == 1, (
            f"{len(exercise.solutions)} solutions of {name!r}"
        )


def names_of_helpers_exist(notebook, number):
    """Every name of the package that the cells and the solutions use is there."""
    sources = [cell.source for cell in course.code_cells(notebook)]
    sources += [code for each in course.exercises(notebook) for code in each.solutions]
    known = {}
    for source in sources:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                known.update(_imported(node))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner = known.get(node.value.id)
                if inspect.ismodule(owner) or inspect.isclass(owner):
                    assert hasattr(owner, node.attr), f"{owner} has no {node.attr}"


def _imported(node) -> dict:
    """What an import of ours binds: local name → object; fails where there is none."""
    bound = {}
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "helpers":
                bound[alias.asname or "helpers"] = importlib.import_module(alias.name)
    elif (node.module or "").split(".")[0] == "helpers":
        module = importlib.import_module(node.module)
        for alias in node.names:
            if not hasattr(module, alias.name):
                importlib.import_module(f"{node.module}.{alias.name}")
            bound[alias.asname or alias.name] = getattr(module, alias.name)
    return bound


GATES = (
    is_valid,
    is_executed_in_order,
    outputs_are_portable,
    alts_are_of_this_code,
    cells_are_short,
    has_no_shell_lines,
    keeps_its_settings,
    opens_as_all_do,
    has_exercises,
    names_of_helpers_exist,
)
