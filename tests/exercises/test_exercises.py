"""Every check refuses its stub and wrong answers, and accepts right ones."""

import pathlib
import tomllib

import course_notebooks as course
import exercise_runs as runs
import numpy as np
import pytest
import right_answers

from helpers.exercises.check import agrees, check_properties, filled


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    monkeypatch.chdir(course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr("helpers.runtime.where", lambda: "laptop")
    monkeypatch.setenv("COURSE_PRESET", "laptop")


def changed(file):
    """(exercise, solution with one change) of each change in a file."""
    table = tomllib.loads(pathlib.Path(__file__).parents[1].joinpath(file).read_text())
    for name, changes in table.items():
        (solution,) = runs.exercises()[name].solutions
        for what, (before, after) in changes.items():
            assert before in solution, f"{name}: {what}"
            source = solution.replace(before, after) if before else solution + after
            yield pytest.param(name, source, id=f"{name}: {what}")


WRONG = list(changed("wrong_answers.toml"))


@pytest.mark.parametrize("name", runs.exercises())
def test_the_solution_passes_and_the_stub_gets_the_committed_message(name):
    exercise = runs.exercises()[name]
    stub = runs.judged(name, exercise.stub)
    assert not stub.passed, "the untouched stub passes"
    number, _, place = name.partition("-")
    cell = course.tagged(runs.notebooks()[number], "check")[int(place) - 1]
    committed = "".join(output.get("text", "") for output in cell.outputs)
    # What JAX says of an error depends on its version.
    shown, _, _ = committed.strip().partition(", but it raised")
    assert stub.message.partition(", but it raised")[0] == shown
    (solution,) = exercise.solutions
    solved = runs.judged(name, solution)
    assert solved.passed, solved.message


def test_every_exercise_has_four_wrong_answers():
    for name in runs.exercises():
        assert sum(name in case.values for case in WRONG) >= 4


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, source", WRONG)
def test_a_wrong_answer_is_refused(name, source):
    assert not runs.judged(name, source).passed


@pytest.mark.parametrize("name, source", changed("right_answers.toml"))
def test_a_change_that_leaves_it_right_is_accepted(name, source):
    verdict = runs.judged(name, source)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("name, answer", right_answers.RIGHT.items())
def test_another_right_answer_is_accepted(name, answer):
    verdict = runs.judged_value(name, answer)
    assert verdict.passed, verdict.message


def test_the_first_property_that_fails_is_printed(capsys):
    properties = {"be right": [(4,)], "be even": lambda: False, "be small": lambda: 0}
    verdict = check_properties(properties, abs, lambda x: x)
    assert not verdict.passed
    assert verdict.message == "Not yet: it should be even."
    assert capsys.readouterr().out == verdict.message + "\n"
    assert check_properties({"a": lambda: True, "b": lambda: 1}).passed
    assert not check_properties({"a": lambda: np.array([True, False])}).passed
    assert not check_properties({"be right": [(4,), (-4,)]}, abs, lambda x: x).passed


@pytest.mark.parametrize("error", [NotImplementedError, ZeroDivisionError])
def test_a_check_never_raises(error):
    def broken():
        raise error("boom")

    verdict = check_properties({"be anything": broken})
    assert not verdict.passed and "boom" in verdict.message
    assert verdict.message.startswith("Not written") == (error is NotImplementedError)


def test_zero_and_false_are_filled_in_and_none_is_not():
    for given in (0, False, "", {"first": 0, "last": 11}):
        assert check_properties({"a": filled(given, what="something")}).passed
    for given in (None, {"first": 11, "last": None}):
        verdict = check_properties({"a": filled(given, what="two positions")})
        expected = "put two positions in place of None and run both cells."
        assert verdict.message == f"Not written yet: {expected}"


def test_agrees_compares_shapes_values_and_what_is_left_of_the_arguments():
    cases = [(np.array([3.0, 1.0]),), (np.array([5.0, 9.0, 7.0]),)]
    assert agrees(sorted, np.sort, cases, 1e-4)
    assert not agrees(sorted, lambda x: np.sort(x)[None], cases, 1e-4)
    assert not agrees(lambda x: sorted(x + 1e-2), np.sort, cases, 1e-4)
    assert agrees(lambda x: [len(x), None], lambda x: (len(x), None), cases)
    with pytest.raises(ValueError, match="changes"):
        agrees(lambda x: x.sort() or x, np.sort, cases)
