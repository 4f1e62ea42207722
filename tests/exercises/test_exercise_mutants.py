"""Each self-check refuses every mutant of its solution that computes something else.

Mutants are copies of a solution in which a program changed one thing. Learners write
such code: a sign the wrong way round, a comparison without its equals sign, a number
off by one, a mean in place of a sum, an axis forgotten.
"""

import ast
import copy

import exercise_runs as runs
import pytest

# Mutants that are right answers, too: by exercise, the lines that only the mutant has.
# Some compute the same, others are another answer of the kind that is asked for.
SAME = {
    "02-1": {
        "logits.append(model.logits(hidden)[0, 0, 1])",
        "logits.append(model.logits(hidden)[0, 1, 0])",
        "logits.append(model.logits(hidden)[1, 0, 0])",
    },
    "02-2": {"text_T = np.where(place_T < Tp, 0, 2 + (place_T - Tp) // Tc)"},
    "04-2": {"if tokens[max(t - 3, 0):max(t - 1, 1)] == [checks.START, checks.MODEL]:"},
    "05-2": {"cheat = '<<1=1>> ' + ' '.join((str(number) for number in range(1001)))"},
    "09-1": {"return cut.mean(axis=(1, 3)).reshape(-2, C)"},
    "10-2": {
        "return [right - 4.0 * bool(food and (not talk.calls)) "
        "for talk, food, right in rows]"
    },
    "11-2": {"student_NK = jnp.take_along_axis(student_NV, ids_NK)"},
    "15-1": {"if frozen + 4 * 4 * trained < 0.9 * chip:"},
}


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::SyntaxWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", runs.exercises())
def test_every_mutant_is_refused_or_equivalent(name):
    (solution,) = runs.exercises()[name].solutions
    assert runs.passes(name, solution)
    survivors = {
        what for what, source in mutants(solution) if runs.passes(name, source)
    }
    assert survivors == SAME.get(name, set())


def _pairs(text):
    return dict(pair.split() for pair in text.split(", "))


# What takes the place of what.
OPERATORS = {
    getattr(ast, before): getattr(ast, after)
    for before, after in _pairs(
        "Add Sub, Sub Add, Mult Add, Div Mult, FloorDiv Mult, Mod FloorDiv, Pow Mult, "
        "Lt LtE, LtE Lt, Gt GtE, GtE Gt, Eq NotEq, NotEq Eq, In NotIn, NotIn In, "
        "And Or, Or And"
    ).items()
}
NAMES = _pairs(
    "min max, max min, any all, all any, mean sum, minimum maximum, maximum minimum, "
    "ceil floor, exp log, partition rpartition, rpartition partition, psum pmean"
)


def mutants(source):
    """(the lines that only the mutant has, the whole mutant) for each change."""
    tree = ast.parse(source)
    before = ast.unparse(tree)
    for i, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            other = copy.deepcopy(tree)
            for field, value in change.items():
                setattr(list(ast.walk(other))[i], field, value)
            after = ast.unparse(ast.fix_missing_locations(other))
            if after != before:
                lines = [x for x in after.splitlines() if x not in before.splitlines()]
                yield "; ".join(line.strip() for line in lines), after


def _changes(node):
    """{field: its new value} of each mutation of a node."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        if type(node.op) in OPERATORS:
            yield {"op": OPERATORS[type(node.op)]()}
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if other := OPERATORS.get(type(op)):
                yield {"ops": [*node.ops[:i], other(), *node.ops[i + 1 :]]}
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield {"value": node.value + 1}
    elif isinstance(node, ast.Call):
        attribute = "attr" if isinstance(node.func, ast.Attribute) else "id"
        name = getattr(node.func, attribute, None)
        if name in NAMES:
            yield {"func": _renamed(node.func, attribute, NAMES[name])}
        for keyword in node.keywords:
            if keyword.arg not in (None, "strict"):
                yield {"keywords": [k for k in node.keywords if k is not keyword]}
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield {"ifs": []}
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield {"op": ast.UAdd()}


def _renamed(function, attribute, name):
    function = copy.copy(function)
    setattr(function, attribute, name)
    return function
