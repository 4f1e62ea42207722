"""Every folded solution passes its check; every untouched stub fails it, kindly."""

import course_notebooks as course
import exercise_runs as runs
import numpy as np
import pytest

from helpers.exercises.check import Check, judge


@pytest.mark.parametrize("name", runs.exercises())
def test_solution_passes_and_stub_fails(name, monkeypatch, tmp_path):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    exercise = runs.exercises()[name]
    stub = runs.judged(name, exercise.stub)
    assert isinstance(stub, Check) and not stub.passed, "the untouched stub passes"
    assert len(exercise.solutions) == 1
    solved = runs.judged(name, exercise.solutions[0])
    assert solved.passed, solved.message


@pytest.mark.parametrize("number", course.NUMBERS)
def test_the_committed_output_of_a_check_is_what_its_stub_is_told(
    number, monkeypatch, tmp_path
):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    cells = course.tagged(runs.notebooks()[number], "check")
    for i, cell in enumerate(cells, 1):
        committed = "".join(output.get("text", "") for output in cell.outputs)
        name = f"{number}-{i}"
        said = runs.judged(name, runs.exercises()[name].stub).message
        # What JAX says of an error depends on its version.
        told, _, _ = committed.strip().partition(", but it raised")
        assert said.partition(", but it raised")[0] == told, name


def test_judge_names_the_first_property_that_fails(capsys):
    verdict = judge(
        ("be positive", lambda: True),
        ("be even", lambda: False),
        ("be small", lambda: False),
    )
    assert not verdict.passed
    assert verdict.message == "Not yet: it should be even."
    assert capsys.readouterr().out == verdict.message + "\n"


@pytest.mark.parametrize("error", [NotImplementedError, ZeroDivisionError, TypeError])
def test_judge_never_raises(error):
    def broken():
        raise error("boom")

    verdict = judge(("be anything", broken))
    assert not verdict.passed
    if error is not NotImplementedError:
        assert error.__name__ in verdict.message and "boom" in verdict.message


def test_judge_takes_an_array_without_one_truth_value_as_a_failure():
    assert not judge(("be one value", lambda: np.array([True, False]))).passed


def test_judge_passes_only_when_all_hold():
    assert judge(("a", lambda: True), ("b", lambda: 1)).passed
