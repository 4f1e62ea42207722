"""An exercise that was not touched is told what to fill in, not what Python raised."""

import pytest
from exercise_answers.gradients import DIAGNOSES

from helpers.exercises import (
    food_grpo,
    grpo,
    sft,
    start,
    template,
)
from helpers.exercises.check import filled, judge

NAMES = ("Ada", "Ben", "Cho", "Dan", "Eve")


@pytest.mark.parametrize(
    "check, stub, what",
    [
        (start.check_drive, [None], "a dict of one entry"),
        (grpo.check_diagnosis, [dict.fromkeys(DIAGNOSES)], "the letter of a run"),
        (food_grpo.check_price, [None], "a weight"),
        (template.check_guess, [None], "your guess"),
        (sft.check_positions, [None, None], "two positions"),
        (sft.check_positions, [11, None], "two positions"),
        (sft.check_verdicts, [dict.fromkeys(NAMES)], "a fault of checks.FAULTS"),
    ],
)
def test_an_untouched_stub_is_told_what_to_fill_in(check, stub, what):
    verdict = check(*stub)
    assert not verdict.passed
    expected = f"Not written yet: put {what} in place of None and run both cells."
    assert verdict.message == expected


def test_zero_and_false_are_answers():
    assert judge(("be filled in", filled(0, False, "", what="something"))).passed
