"""Every check refuses what learners write wrongly, and accepts other right answers."""

import exercise_answers as answers
import exercise_runs as runs
import pytest


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    monkeypatch.chdir(runs.course.FOLDER)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr("helpers.runtime.where", lambda: "laptop")
    monkeypatch.setenv("COURSE_PRESET", "laptop")


def each(table):
    for name, cases in table.items():
        for what, answer in cases.items():
            yield pytest.param(name, answer, id=f"{name}: {what}")


def test_every_exercise_has_five_wrong_answers_and_another_right_one():
    assert set(answers.WRONG) == set(answers.RIGHT) == set(runs.exercises())
    assert all(len(cases) >= 5 for cases in answers.WRONG.values())
    assert all(answers.RIGHT.values())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, answer", each(answers.WRONG))
def test_a_wrong_answer_is_refused(name, answer):
    assert not runs.judged_value(name, answer).passed


@pytest.mark.parametrize("name, answer", each(answers.RIGHT))
def test_another_right_answer_is_accepted(name, answer):
    told = runs.judged_value(name, answer)
    assert told.passed, told.message
