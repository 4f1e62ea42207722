"""Every folded solution passes its check; every untouched stub fails it, kindly."""

import ast

import course_notebooks as course
import notebook_gates as gates
import numpy as np
import pytest

from helpers.exercises.check import Check, judge


def _all_exercises():
    notebooks = {"template": gates.template()}
    for number in course.NUMBERS:
        if list(course.FOLDER.glob(f"{number}_*.ipynb")):
            notebooks[number] = course.read(number)
        # a missing notebook fails in test_notebooks_static.py
    for name, notebook in notebooks.items():
        for i, exercise in enumerate(course.exercises(notebook), 1):
            yield pytest.param(notebook, exercise, id=f"{name}-{i}")


def run_check(notebook, answer: str, check: str) -> Check:
    """Run a notebook's imports, then an answer, then the check; return its verdict."""
    (imports,) = course.tagged(notebook, "imports")
    namespace = {"__name__": "__main__"}
    for source in (imports.source, answer):
        exec(compile(source, "answer", "exec"), namespace)
    tree = ast.parse(check)
    *first, last = tree.body
    exec(compile(ast.Module(first, []), "check", "exec"), namespace)
    assert isinstance(last, ast.Expr), "a check cell ends with the call of its check"
    return eval(compile(ast.Expression(last.value), "check", "eval"), namespace)


@pytest.mark.parametrize("notebook, exercise", _all_exercises())
def test_solution_passes_and_stub_fails(notebook, exercise, monkeypatch, tmp_path):
    monkeypatch.chdir(course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    stub = run_check(notebook, exercise.stub, exercise.check)
    assert isinstance(stub, Check) and not stub.passed, "the untouched stub passes"
    assert len(exercise.solutions) == 1
    solved = run_check(notebook, exercise.solutions[0], exercise.check)
    assert solved.passed, solved.message


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
