"""Each self-check refuses every mutant of its solution that computes something else."""

import exercise_equivalents as equivalents
import exercise_mutants
import exercise_runs as runs
import pytest


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
    mutants = list(exercise_mutants.mutants(solution))
    survivors = {what for what, source in mutants if runs.passes(name, source)}
    assert survivors == equivalents.SAME.get(name, set())


def test_the_mutator_makes_the_mistakes_that_learners_make():
    for source, mutant in {
        "x = a - b": "x = a + b",
        "x = a < b": "x = a <= b",
        "x = y.mean(axis=1)": "x = y.mean()",
        "x = min(y)": "x = max(y)",
        "x = [y for y in z if y]": "x = [y for y in z]",
        "def f(a=1):\n    return a": "def f(a=2):\n    return a",
    }.items():
        assert mutant in [made for _, made in exercise_mutants.mutants(source)]
    words = 'def f(a):\n    """Words."""\n    raise ValueError("more words")'
    assert list(exercise_mutants.mutants(words)) == []
