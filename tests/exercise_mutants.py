"""Mutants of a solution: copies of its code in which a program changed one thing.

Learners write such code: a sign the wrong way round, a mean over the other axis, a
comparison without its equals sign, two arguments exchanged, a step forgotten. Each
self-check must refuse every mutant of its official solution, unless the mutant computes
the same thing (tests/exercise_equivalents.py).

Left alone: docstrings, annotations, imports, the words of a `raise`, and `strict=`, for
none of them changes what is computed; and a product's factors stay in their order.
"""

import ast
import copy
import re
from collections.abc import Iterator

LONGEST_STRING = 40  # of longer ones, and of prose, not every letter is left out
ARITHMETIC = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
# Each name is replaced by every other one of its row.
FAMILIES = (
    ("min", "max", "sum"),
    ("minimum", "maximum"),
    ("mean", "sum", "max", "min", "prod"),
    ("any", "all"),
    ("ceil", "floor"),
    ("partition", "rpartition"),
    ("exp", "log"),
    ("zeros", "ones"),
    ("int", "float"),
    ("findall", "search"),
    ("psum", "pmean", "pmax"),
    ("psum_scatter", "psum"),
    ("gelu", "relu"),
)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """(what is written now, the whole mutant) of each change of one place."""
    tree = ast.parse(source)
    before = ast.unparse(tree)
    seen = {before}
    for parent, field, index, node in list(_places(tree)):
        for other in _instead(node, parent, _parameters(tree, node)):
            _put(parent, field, index, other)
            after = ast.unparse(ast.fix_missing_locations(tree))
            _put(parent, field, index, node)
            if after not in seen:
                seen.add(after)
                yield _changed(before, after), after


def _changed(before, after):
    """The lines that only the mutant has; where it has none, those that it lacks."""
    old, new = before.splitlines(), after.splitlines()
    only = [line.strip() for line in new if new.count(line) > old.count(line)]
    if only and only != ["pass"]:
        return "; ".join(only)
    gone = [line.strip() for line in old if old.count(line) > new.count(line)]
    return "without " + "; ".join(gone)


def _put(parent, field, index, node):
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _places(tree):
    """(parent, field, index, node) of every node that may be changed."""
    for field, value in ast.iter_fields(tree):
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST) or _let_alone(tree, field, index, node):
                continue
            yield tree, field, index if isinstance(value, list) else None, node
            yield from _places(node)


def _let_alone(parent, field, index, node):
    documented = isinstance(parent, ast.FunctionDef | ast.ClassDef) and index == 0
    words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return (
        (documented and field == "body" and words)
        or field in ("annotation", "returns")
        or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.arg)
        or (isinstance(node, ast.keyword) and node.arg == "strict")
    )


def _parameters(tree, node):
    """The arguments of the function in which a name is read."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and node in ast.walk(function):
                names = [a.arg for a in function.args.args if a.arg != "self"]
                return names if node.id in names else []
    return []


def _instead(node, parent, names):
    """Nodes to write in place of this one."""
    for name in names:
        yield ast.Name(name, ast.Load())
    if isinstance(node, ast.Constant):
        yield from map(ast.Constant, _constants(node.value))
    elif isinstance(node, ast.stmt):
        yield from _statements(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.expr):
        yield from _expressions(node, parent)


def _constants(value):
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        prose = len(value) > LONGEST_STRING or len(re.findall(r"[a-z]{2,}", value)) > 2
        for i in range(0 if prose else len(value)):
            yield value[:i] + value[i + 1 :]
        yield ""
    elif value is None:
        yield 0


def _statements(node):
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If | ast.For):
        yield ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value)
        for other in ARITHMETIC.get(type(node.op), ()):
            yield _with(node, op=other())
    elif isinstance(node, ast.Return):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def _calls(node):
    function, given = node.func, node.args
    for i in range(len(given) - 1):
        yield _with(node, args=[*given[:i], given[i + 1], given[i], *given[i + 2 :]])
    if len(given) > 1:
        for i in range(len(given)):
            yield _with(node, args=given[:i] + given[i + 1 :])
    for keyword in node.keywords:
        if keyword.arg not in (None, "strict"):
            rest = [other for other in node.keywords if other is not keyword]
            yield _with(node, keywords=rest)
    if given:
        yield given[0]
    if isinstance(function, ast.Attribute):
        yield function.value
    attribute = "attr" if isinstance(function, ast.Attribute) else "id"
    for family in FAMILIES:
        if getattr(function, attribute, None) in family:
            for name in family:
                yield _with(node, func=_with(function, **{attribute: name}))


def _expressions(node, parent):
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
        if not isinstance(node.op, ast.Mult):
            yield _with(node, left=node.right, right=node.left)
        for other in ARITHMETIC.get(type(node.op), ()):
            yield _with(node, op=other())
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                yield _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        if len(node.values) > 2:
            for i in range(len(node.values)):
                yield _with(node, values=node.values[:i] + node.values[i + 1 :])
        else:
            yield from node.values
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
        yield _with(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.Slice):
        yield from (_with(node, lower=None), _with(node, upper=None))
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
        for i, loop in enumerate(node.generators):
            if loop.ifs:
                rest = [*node.generators[:i], _with(loop, ifs=[])]
                yield _with(node, generators=rest + node.generators[i + 1 :])
    elif isinstance(node, ast.Tuple | ast.List):
        yield from _sequences(node)
    elif isinstance(node, ast.Dict):
        for i in range(len(node.keys)):
            keys, values = list(node.keys), list(node.values)
            del keys[i], values[i]
            yield ast.Dict(keys, values)
    elif isinstance(node, ast.Attribute) and not isinstance(parent, ast.Call):
        if isinstance(node.ctx, ast.Load):
            yield node.value


def _sequences(node):
    items = node.elts
    for i in range(len(items) - 1):
        yield _with(node, elts=[*items[:i], items[i + 1], items[i], *items[i + 2 :]])
    if isinstance(node.ctx, ast.Load):
        for i in range(len(items)):
            yield _with(node, elts=items[:i] + items[i + 1 :])


def _with(node, **changes):
    """The node with other fields."""
    other = copy.copy(node)
    for field, value in changes.items():
        setattr(other, field, value)
    return other
