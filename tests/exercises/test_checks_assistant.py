"""The self-checks of notebook 14 name what is wrong with plausible answers."""

import pytest
from exercise_answers import assistant as answers

from helpers.app.assistant import Event
from helpers.app.event_view import event_html
from helpers.exercises import assistant as checks


@pytest.mark.parametrize(
    "name, said",
    [
        ("tells nothing", "tell the model"),
        ("only the first call", "each of two calls"),
        ("told one by one", "of one turn together"),
        ("runs the last call", "no turn is left"),
        ("runs twice", "each call once"),
        ("for ever", "no turn is left"),
        ("a turn too few", "go on for as many"),
    ],
)
def test_loops_with_a_mistake(name, said):
    verdict = checks.check_loop(answers.WRONG["14-1"][name])
    assert not verdict.passed and said in verdict.message


@pytest.mark.parametrize(
    "name, said",
    [
        ("words only", "one more line"),
        ("escaped", "one more line"),
        ("another kind of line", "same kind"),
        ("in the model's name", "begin as the tool's do"),
        ("the tool's own number", "claim 9"),
        ("too long", "as short as"),
    ],
)
def test_answers_that_forge_nothing(name, said):
    verdict = checks.check_forged(answers.WRONG["14-2"][name])
    assert not verdict.passed and said in verdict.message


@pytest.mark.parametrize("forged", answers.RIGHT["14-2"].values())
def test_what_deceives_a_careless_page_does_not_deceive_the_app(forged):
    event = Event("answer", forged)
    assert checks.Lines(checks.naive_html(event)).of_the_tool()
    lines = checks.Lines(event_html(event))
    assert [classes for classes, _ in lines.found] == [["food-event", "food-answer"]]
    assert lines.of_the_tool() == []


def test_the_diary_holds_what_notebook_14_says():
    assert [checks.logged(turns) for turns in checks.CONVERSATIONS] == [
        402,
        662,
        0,
        394,
    ]


@pytest.mark.parametrize(
    "name, said",
    [
        ("trusts the answer", "the first"),
        ("trusts an answer out of the blue", "the third"),
        ("only the last look-up", "the second"),
        ("twice", "the fourth"),
    ],
)
def test_wrong_predictions_of_the_diary(name, said):
    verdict = checks.check_diary(answers.WRONG["14-3"][name])
    assert not verdict.passed and said in verdict.message


@pytest.mark.parametrize(
    "name, said",
    [
        ("only in the middle", "cannot begin"),
        ("only at the beginning", "fails in its turn"),
        ("begins both", "leave the second alone"),
        ("tells both", "its own calls"),
        ("blind", "the same picture"),
        ("catches all", "only what a person can mend"),
        ("never goes back", "begin every conversation with the first"),
    ],
)
def test_reserves_with_a_mistake(name, said):
    verdict = checks.check_reserve(answers.WRONG["14-4"][name])
    assert not verdict.passed and said in verdict.message
