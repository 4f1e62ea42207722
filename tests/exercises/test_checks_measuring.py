"""The self-checks of notebook 03 refuse the mistakes they are there to find."""

import re
from fractions import Fraction

import pytest

from helpers.exercises import measuring

RIGHT = ("They cost thirty-six dollars.", True)
LUCKY = ("<<18+2=20>>20, so <<20*2=36>>36.\n#### 36", False)
TWO_NUMBERS = ("#### 36 dollars for 2 tickets", True)


@pytest.mark.parametrize(
    "mistakes, complaint",
    [
        ([RIGHT, LUCKY], "three pairs"),
        ([RIGHT, RIGHT, LUCKY], "different"),
        ([RIGHT, LUCKY, ("#### 36", True)], "disagree"),
        ([RIGHT, TWO_NUMBERS, ("It is 36.", True)], "wrong and accepted"),
        ([RIGHT, LUCKY, ("They cost 35.", True)], "honest"),
        ([RIGHT, TWO_NUMBERS, ("#### 36", False)], "honest"),
    ],
)
def test_mistakes_must_be_real_and_honest(mistakes, complaint):
    check = measuring.check_mistakes(mistakes, gold="36")
    assert not check.passed and complaint in check.message


def test_a_hedge_counts_as_wrong_and_accepted():
    hedge = ("#### 18\n#### 36", False)
    assert measuring.check_mistakes([RIGHT, TWO_NUMBERS, hedge], gold="36").passed


TAKEN_BACK = """Many people mistakenly say 36.|It should be lower: under 36.
36 is incorrect.|36 is false|36 is too many.|They answered 36, wrongly.|36 too few
at least 36|Everybody says 36.|The answer is not 36|It isn't 36|half of 36|36 or so
Each costs 36.|The price of each ticket is 36|36%|Is it 36?|twice 36|36 times two|-36
A ticket costs $36.|One ticket costs 36.|It is 36 dollars per ticket.
The answer is both 18 and 36.|18+18=35 so it costs 36|18 + 18 = 37, so the sum is 36
36!|They cost 3_6|Nobody pays 36|36 cents|√36|36²|thirty-six hundred|less: 36"""


@pytest.mark.parametrize("text", re.split(r"[|\n]", TAKEN_BACK))
def test_a_number_that_is_taken_back_is_not_right(text):
    hedged = [(text, True), TWO_NUMBERS, LUCKY]
    assert not measuring.check_mistakes(hedged, gold="36").passed


SAID = """They cost 36 dollars!|It is $36 in all.|It's 36.
$18 each, and she pays for 2 tickets: 36|The answer is thirty-six.|18 + 18 = 36
One ticket costs 18, two cost 36.|A ticket is $18 and 18 * 2 = 36
The ticket price is 18 each, so the total is 36.|18 + 18 = 36, so both cost 36
Each ticket costs $18, so both together are $36.|So the total is 36.00 dollars."""


@pytest.mark.parametrize("text", re.split(r"[|\n]", SAID))
def test_a_number_that_is_plainly_said_is_right(text):
    said = [(text, True), TWO_NUMBERS, LUCKY]
    assert measuring.check_mistakes(said, gold="36").passed


@pytest.mark.parametrize(
    "pattern, complaint",
    [
        (r"-?\d+", "1,000"),
        (r"\d+(?:\.\d+|/\d+)?", "1,000"),
    ],
)
def test_naive_extractors_are_told_where_they_fail(pattern, complaint):
    def extract(text):
        found = re.findall(pattern, text)
        return Fraction(found[-1]) if found else None

    check = measuring.check_extract(extract)
    assert not check.passed and complaint in check.message


def test_an_inexact_extractor_is_refused():
    def extract(text):
        text = re.sub("[,$]", "", text.replace("−", "-")).rpartition("####")[2]
        found = re.findall(r"-?\d+(?:\.\d+|/\d+)?", text)
        return float(Fraction(found[-1])) if found else None

    assert "exact" in measuring.check_extract(extract).message


def test_pass_at_k_must_draw_without_putting_back():
    check = measuring.check_pass_at_k(lambda n, c, k: 1 - (1 - c / n) ** k)
    assert not check.passed


@pytest.mark.parametrize("n, passed", [(1000, False), (2401, True), (5000, False)])
def test_questions_needed_has_both_bounds(n, passed):
    assert measuring.check_questions_needed(n).passed == passed


@pytest.mark.parametrize("answer", [None, 5, ["a", "b", "c"], [("a",)] * 3])
def test_mistakes_of_the_wrong_shape_are_judged_not_raised(answer):
    assert not measuring.check_mistakes(answer, "24").passed
