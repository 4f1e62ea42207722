"""Each check refuses a right function with one mistake around it, whatever its type."""

import contextlib
import io

import exercise_attacks as attacks
import exercise_runs as runs
import numpy as np
import pytest

REWARD = "a reward need not look at the question"
RIGHT_ALL_THE_SAME = {
    ("05-4", "prompts as in the first call"): REWARD,
    ("10-4", "prompts as in the first call"): REWARD,
}


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))


def each(name, make):
    """(what is special, the verdict) for each function that an exercise asks for."""
    solution = runs.solved(name)
    for i, function in enumerate(solution):
        for what, other in make(function).items() if callable(function) else ():
            given = [*solution[:i], other, *solution[i + 1 :]]
            with contextlib.redirect_stdout(io.StringIO()):
                yield what, runs.judged_value(name, given if given[1:] else other)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", runs.exercises())
def test_a_mistake_around_the_solution_is_refused(name):
    let_through = {what for what, check in each(name, attacks.wrong) if check.passed}
    assert let_through == {what for at, what in RIGHT_ALL_THE_SAME if at == name}


@pytest.mark.parametrize("name", runs.exercises())
def test_a_result_of_another_type_is_accepted(name):
    refused = {
        what: check.message
        for what, check in each(name, attacks.right)
        if not check.passed
    }
    assert not refused


def test_the_attacks_are_what_they_say():
    def total(values, factor=1):
        return factor * np.sum(values)

    wrong, values = attacks.wrong(total), [1.0, 2.0]
    assert set(wrong) >= {"values itself", "factor as in the first call"}
    assert wrong["spoils what it is given"](values) == 3 and values != [1.0, 2.0]
    assert wrong["values itself"]([4]) == [4]
    kept, frozen = (
        wrong["the first result for ever"],
        wrong["factor as in the first call"],
    )
    assert (kept([1]), kept([2])) == (1, 1)
    assert (frozen([1]), frozen([2], factor=9)) == (1, 2)
    right = attacks.right(total)
    assert right["float32"]([0.1]).dtype == np.float32
    assert right["JAX"]([0.1]).shape == () and right["NumPy"]([3]) == 3
