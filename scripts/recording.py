"""Rewrites the assertions of a notebook so that they are recorded instead of raised.

`rewrite` changes the copy that is executed, never the committed notebook: each `assert`
becomes a call of a `Recorder`, which writes one line of JSON for every comparison that
the assertion is the conjunction of: what was compared, how far it stood from its bound,
and whether it held. The operands are evaluated once, as written.
"""

import ast
import json
import math
import operator
import pathlib

import nbformat
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = "course_recorder"  # of the Recorder, in the notebook's own names
OPERATORS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
APPLIED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
# rtol and atol as the functions have them by default.
CLOSE = {"np.isclose": (1e-5, 1e-8), "np.allclose": (1e-5, 1e-8)}
CLOSE |= {"math.isclose": (1e-9, 0.0)}


def rewrite(notebook: nbformat.NotebookNode, records: pathlib.Path) -> None:
    """Make the notebook record its assertions into the file `records`, in place.

    Cells keep their lines but for the assertions; one cell is put before the first.
    """
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and "assert" in cell.source:
            cell.source = rewritten(cell.source, index)
    start = (
        f"import sys\nsys.path.append({str(ROOT)!r})\n"
        f"from scripts.recording import Recorder\n{NAME} = Recorder({str(records)!r})"
    )
    notebook.cells.insert(0, nbformat.v4.new_code_cell(start))


def rewritten(source: str, cell: int) -> str:
    """The code of one cell with its assertions recorded.

    Args:
      cell: its index in the notebook, which the records name.
    Raises:
      SyntaxError: the cell is not plain Python.
    """
    lines = source.encode().splitlines(keepends=True)  # ast counts columns in bytes
    starts = [sum(map(len, lines[:i])) for i in range(len(lines))]
    code = source.encode()
    found = [node for node in ast.walk(ast.parse(source)) if type(node) is ast.Assert]
    for node in sorted(found, key=lambda node: node.lineno, reverse=True):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        said = f"{NAME}.check({cell}, lambda: {_recorded(node.test)})"
        code = code[:first] + said.encode() + code[last:]
    return code.decode()


def _recorded(test: ast.expr) -> str:
    """Code of the truth of a condition that records what it is the conjunction of."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = ", ".join(f"lambda: {_recorded(value)}" for value in test.values)
        return f"{NAME}.both({parts})"
    if isinstance(test, ast.Compare) and {type(op) for op in test.ops} <= set(
        OPERATORS
    ):
        signs = [OPERATORS[type(op)] for op in test.ops]
        sides = [test.left, *test.comparators]
        code = [ast.unparse(side) for side in sides]
        fixed = [_is_constant(side) for side in sides]
        return f"{NAME}.compared({signs}, {code}, {fixed}, {', '.join(code)})"
    if isinstance(test, ast.Call):
        return _recorded_call(test)
    return f"{NAME}.truth({ast.unparse(test)!r}, {ast.unparse(test)})"


def _recorded_call(test: ast.Call) -> str:
    name, text = ast.unparse(test.func), ast.unparse(test)
    if name == "all" and isinstance(test.args[0], ast.GeneratorExp | ast.ListComp):
        loops = " ".join(ast.unparse(loop) for loop in test.args[0].generators)
        return f"all([{_recorded(test.args[0].elt)} {loops}])"
    if name in CLOSE and not any(type(arg) is ast.Starred for arg in test.args):
        inside = ", ".join(map(ast.unparse, [*test.args, *test.keywords]))
        return f"{NAME}.close({text!r}, {name!r}, {inside})"
    is_all = isinstance(test.func, ast.Attribute) and test.func.attr == "all"
    if is_all and isinstance(test.func.value, ast.Compare) and not test.args:
        return f"{NAME}.all({_recorded(test.func.value)})"
    return f"{NAME}.truth({text!r}, {text})"


def _is_constant(node: ast.expr) -> bool:
    """Whether an expression is made of numbers only, such as 1.5 / 256."""
    inner = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
    return all(isinstance(part, inner) for part in ast.walk(node))


class Recorder:
    """Writes what the assertions of one notebook compared; lives in its kernel."""

    def __init__(self, path: str):
        self.path = pathlib.Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        self._cell = None

    def check(self, cell, condition):
        """What stands in the place of an assertion: records it, raises nothing new.

        Args:
          cell: index of the cell.
          condition: evaluates the rewritten condition.
        """
        around = self._cell  # a condition may call what has assertions of its own
        self._cell = cell
        condition()
        self._cell = around

    def both(self, *conditions):
        """The truth of a conjunction; each part is evaluated, also after a false one.

        A part that fails with an error is not in doubt where a part before it is false:
        it is then left out, as Python's own `and` would.
        """
        held = True
        for condition in conditions:
            try:
                held = bool(condition()) and held
            except Exception:
                if held:
                    raise
        return held

    def compared(self, signs, texts, fixed, *sides):
        """The truth of a chain of comparisons; arrays are compared element by element.

        Args:
          signs: between the sides, such as ["<", "<="].
          texts: of the sides.
          fixed: for each side, whether it is made of literals.
        """
        held = []
        for i, (sign, left, right) in enumerate(
            zip(signs, sides[:-1], sides[1:], strict=True)
        ):
            held.append(APPLIED[sign](left, right))
            numbers = _worst(sign, left, right, fixed[i])
            text = f"{texts[i]} {sign} {texts[i + 1]}"
            self._write(text, bool(np.all(held[-1])), *numbers)
        return held[0] if len(held) == 1 else all(map(bool, held))

    def close(self, text, name, a, b, *positional, **named):
        """The truth of np.isclose, np.allclose or math.isclose; the worst element."""
        function = {"np": np, "math": math}[name.split(".")[0]]
        function = getattr(function, name.split(".")[1])
        held = function(a, b, *positional, **named)
        rtol, atol = CLOSE[name]
        first, second = (positional + (None, None))[:2]
        rtol = named.get("rtol", named.get("rel_tol", rtol if first is None else first))
        atol = named.get(
            "atol", named.get("abs_tol", atol if second is None else second)
        )
        a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        scale = np.maximum(abs(a), abs(b)) if name == "math.isclose" else abs(b)
        scaled = rtol * scale
        bound = np.maximum(scaled, atol) if name == "math.isclose" else scaled + atol
        numbers = _worst("<=", abs(a - b), bound, False)
        self._write(text, bool(np.all(held)), *numbers)
        return held

    def all(self, values):
        """`values.all()`."""
        return np.all(values)

    def truth(self, text, value):
        """The truth of anything else; no number is recorded."""
        self._write(text, bool(np.all(value)), None, None, None)
        return value

    def _write(self, text, held, value, bound, margin):
        row = {"cell": self._cell, "assertion": text, "held": held}
        row |= {"value": value, "bound": bound, "margin": margin}
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")


def _worst(sign, left, right, left_is_bound):
    """(value, bound, margin) of the element that stands nearest to its bound.

    The margin is positive where the comparison held, negative where it did not, and of
    an equality 0 or minus the distance. The bound is the right side unless only the
    left one is made of literals. All None where a side holds no numbers.
    """
    try:
        left, right = np.asarray(left, float), np.asarray(right, float)
        left, right = (side.ravel() for side in np.broadcast_arrays(left, right))
    except (TypeError, ValueError):
        return None, None, None
    if not left.size:
        return None, None, None
    margins = {
        "<": right - left,
        "<=": right - left,
        ">": left - right,
        ">=": left - right,
        "==": -abs(left - right),
        "!=": abs(left - right),
    }[sign]
    worst = int(np.argmin(np.where(np.isnan(margins), -np.inf, margins)))
    pair = float(left[worst]), float(right[worst])
    value, bound = pair[::-1] if left_is_bound else pair
    return value, bound, float(margins[worst])
