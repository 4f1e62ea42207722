"""The self-checks of notebook 14 name what is wrong with plausible answers."""

import pytest

from helpers.app.meal_log import scaled
from helpers.exercises import assistant as checks
from helpers.tools.tool_calls import Call, Verdict


@pytest.mark.parametrize(
    "guess, said", [(1, "what the tool gives"), (4, "one event per"), (2.5, "whole")]
)
def test_wrong_guesses(guess, said):
    verdict = checks.check_events(guess)
    assert not verdict.passed and said in verdict.message


@pytest.mark.parametrize(
    "arguments, said",
    [
        (None, "in place of None"),
        ({"food": "piza"}, "exactly food and grams"),
        ({"food": "piza", "grams": -1}, "grams that is allowed"),
        ({"food": "ramen", "grams": 100}, "refused by the tool"),
        ({"food": "qqqq", "grams": 100}, "suggestions"),
    ],
)
def test_calls_that_break_something_else(arguments, said):
    verdict = checks.check_hostile(arguments)
    assert not verdict.passed and said in verdict.message


def rounded(portion, grams):
    exact = scaled(portion, grams)
    return {k: round(v) if isinstance(v, float) else v for k, v in exact.items()}


def only_kcal(portion, grams):
    return {**portion, "grams": grams, "kcal": portion["kcal"] * grams / 150}


def in_place(portion, grams):
    portion.update(scaled(portion, grams))
    return portion


@pytest.mark.parametrize(
    "answer, said",
    [
        (only_kcal, "scale every nutrient"),
        (rounded, "scale every nutrient|not round"),
        (in_place, ""),
        (lambda portion, grams: portion, "new grams"),
    ],
)
def test_another_weight_done_wrongly(answer, said):
    verdict = checks.check_scaled(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in said.split("|"))


def test_the_helpers_own_passes():
    assert checks.check_scaled(scaled).passed


class Invents:
    """Calls as it should, and answers with a number of its own."""

    name = "invents"

    def begin(self, question, picture):
        self.turns = 0
        return self

    def next_turn(self):
        self.turns += 1
        if self.turns > 1:
            return Verdict(text="#### 400")
        return Verdict(calls=(Call("lookup_nutrition", dict(checks.PIZZA)),))

    def append_results(self, verdict, results):
        pass


def test_a_backend_that_invents_numbers():
    verdict = checks.check_backend(Invents)
    assert not verdict.passed and "the tool's number" in verdict.message
