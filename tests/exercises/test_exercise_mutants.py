"""Each self-check refuses every mutant of its solution that computes something else."""

import exercise_equivalents as equivalents
import exercise_mutants
import exercise_runs as runs
import pytest


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))


def matches(listed: str, mutant: str) -> bool:
    """Whether a line of the list, perhaps cut off by …, is this mutant."""
    return mutant == listed or (
        listed.endswith("…") and mutant.startswith(listed.removesuffix("…"))
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::SyntaxWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", runs.exercises())
def test_every_mutant_is_refused_or_equivalent(name):
    (solution,) = runs.exercises()[name].solutions
    assert runs.passes(name, solution)
    mutants = list(exercise_mutants.mutants(solution))
    assert mutants, "no mutant was made"
    survivors = [what for what, source in mutants if runs.passes(name, source)]
    listed = equivalents.SAME.get(name, {})
    leaks = [w for w in survivors if not any(matches(line, w) for line in listed)]
    assert not leaks, "the check accepts these mutants of its solution"
    idle = [line for line in listed if not any(matches(line, w) for w in survivors)]
    assert not idle, "listed as equivalent, but there is no such survivor"


def test_an_equivalent_mutant_belongs_to_an_exercise_and_has_a_reason():
    assert set(equivalents.SAME) <= set(runs.exercises())
    for listed in equivalents.SAME.values():
        assert all(len(reason.split()) >= 3 for reason in listed.values())


def made(source):
    return [mutant for _, mutant in exercise_mutants.mutants(source)]


@pytest.mark.parametrize(
    "source, mutant",
    [
        ("x = a - b", "x = b - a"),
        ("x = a < b", "x = a <= b"),
        ("x = not a", "x = a"),
        ("x = 3", "x = 4"),
        ("x = f(a, b)", "x = f(b, a)"),
        ("x = y.mean(axis=1)", "x = y.mean(axis=0)"),
        ("x = y.mean(axis=1, keepdims=True)", "x = y.mean(axis=1)"),
        ("x = min(y)", "x = max(y)"),
        ("x = [y for y in z if y]", "x = [y for y in z]"),
        ("x = a if b else c", "x = c"),
        ("x = a and b", "x = a or b"),
        ("x = y[2:]", "x = y[:]"),
        ("def f(a, b):\n    return a", "def f(a, b):\n    return b"),
        ("def f(a=1):\n    return a", "def f(a=2):\n    return a"),
    ],
)
def test_the_mutator_makes_the_mistakes_that_learners_make(source, mutant):
    assert mutant in made(source)
    assert source not in made(source)


def test_the_mutator_lets_words_alone():
    words = 'def f(a):\n    """Words."""\n    raise ValueError("more words")'
    assert made(words) == []
