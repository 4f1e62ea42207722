"""The self-checks of notebook 03 refuse the mistakes they are there to find."""

import copy
import re
from fractions import Fraction

import numpy as np
import pytest

from helpers.exercises import measuring
from helpers.rewards import extract_lenient, extract_strict

# Read by hand: what stands in an answer, whether it is right, strict's and lenient's
# verdict.
READ = {
    "and not 36": (False, False, True),
    "They cost <<18+18=36>>": (True, True, True),
    "a fee of 18 is due": (False, True, True),
    "**36**": (True, False, True),
    "36 dollars for 2 tickets": (True, False, False),
    "<<18+2=20>>": (False, True, True),
    "Tom has 5 apples": (True, True, True),
    "At 36 each": (False, False, False),
    "thirty-six": (True, False, False),
    "boxed{36}": (True, False, True),
    "2 x $18": (True, False, False),
    "36 cents": (False, True, True),
    "thirty-four": (False, False, False),
    "$18 for each": (True, False, False),
}


def numbers(*wanted):
    """The answers whose verdicts are these; None for any."""
    return {
        number
        for number, text in measuring.ANSWERS.items()
        for mark, verdicts in READ.items()
        if mark in text
        and all(w in (None, v) for w, v in zip(wanted, verdicts, strict=True))
    }


RIGHT = {
    "strict": {
        "right, rejected": numbers(True, False, None),
        "wrong, accepted": numbers(False, True, None),
    },
    "lenient": {
        "right, rejected": numbers(True, None, False),
        "wrong, accepted": numbers(False, None, True),
    },
}


def test_every_answer_is_read_by_hand_and_by_the_readers_as_the_table_says():
    texts = measuring.ANSWERS.values()
    found = [[v for m, v in READ.items() if m in text] for text in texts]
    assert len(texts) == len(READ) == 14 and all(len(f) == 1 for f in found)
    for text, ((_, strict, lenient),) in zip(texts, found, strict=True):
        assert (extract_strict(text) == 36) == strict, text
        assert (extract_lenient(text) == 36) == lenient, text


def test_two_kinds_of_error_cancel_in_the_lenient_score_as_the_notebook_says():
    assert len(numbers(True, None, None)) == len(numbers(None, None, True)) == 8
    counts = {w: [len(k) for k in kinds.values()] for w, kinds in RIGHT.items()}
    assert counts == {"strict": [6, 3], "lenient": [4, 4]}


def test_the_right_lists_pass():
    assert measuring.check_mistakes(RIGHT).passed


@pytest.mark.parametrize(
    "who, kind, change, complaint",
    [
        ("strict", "right, rejected", {0}, "by their numbers"),
        ("lenient", "wrong, accepted", numbers(True, False, True), "in another"),
        ("strict", "right, rejected", numbers(True, True, True), "only what that"),
        ("lenient", "right, rejected", numbers(True, False, True), "only what that"),
        ("strict", "wrong, accepted", numbers(False, False, True), "only what that"),
        ("strict", "right, rejected", numbers(False, False, False), "call right only"),
        ("lenient", "wrong, accepted", numbers(True, True, True), "call wrong only"),
    ],
)
def test_one_answer_too_many_is_told_apart(who, kind, change, complaint):
    lists = copy.deepcopy(RIGHT)
    lists[who][kind] |= change
    check = measuring.check_mistakes(lists)
    assert not check.passed and complaint in check.message


@pytest.mark.parametrize("who", ["strict", "lenient"])
@pytest.mark.parametrize("kind", measuring.KINDS)
def test_one_answer_too_few_is_missed(who, kind):
    for number in RIGHT[who][kind]:
        lists = copy.deepcopy(RIGHT)
        lists[who][kind].remove(number)
        message = measuring.check_mistakes(lists).message
        assert f"miss none under {who}, '{kind}'" in message
        assert not re.search(r"\d", message), "it gives the answer away"


@pytest.mark.parametrize("answer", [None, 5, ["a", "b"], {"strict": {}, "lenient": []}])
def test_mistakes_of_the_wrong_shape_are_judged_not_raised(answer):
    assert not measuring.check_mistakes(answer).passed


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


def reading(pattern, *caught):
    """An extractor that searches so, after the mark, and gives None for some errors."""

    def extract(text):
        text = re.sub("[,$]", "", text.replace("−", "-"))
        _, mark, rest = text.rpartition("####")
        found = re.findall(pattern, rest.partition("\n")[0] if mark else text)
        try:
            return Fraction(found[-1]) if found else None
        except caught:
            return None

    return extract


NUMBER = r"-?(?:\d+(?:\.\d+|/\d+)?|\.\d+)"


def test_an_extractor_that_never_raises_passes():
    extract = reading(NUMBER, ValueError, ZeroDivisionError)
    assert measuring.check_extract(extract).passed


@pytest.mark.parametrize(
    "extract, complaint",
    [
        (reading(NUMBER, ValueError), "never raise"),
        (reading(NUMBER, ZeroDivisionError), "never raise"),
        (
            reading(r"\d+\.\d+|-?(?:\d+/\d+|\d+|\.\d+)", ArithmeticError, ValueError),
            "the minus of a decimal",
        ),
        (
            reading(r"\d+/\d+|-?\d*\.?\d+", ArithmeticError, ValueError),
            "the minus of a fraction",
        ),
    ],
)
def test_what_raises_or_loses_a_minus_is_refused(extract, complaint):
    assert complaint in measuring.check_extract(extract).message


def test_an_inexact_extractor_is_refused():
    def extract(text):
        text = re.sub("[,$]", "", text.replace("−", "-")).rpartition("####")[2]
        found = re.findall(r"-?\d+(?:\.\d+|/\d+)?", text)
        return float(Fraction(found[-1])) if found else None

    assert "exact" in measuring.check_extract(extract).message


@pytest.mark.parametrize("n, passed", [(1000, False), (2401, True), (5000, False)])
def test_questions_needed_has_both_bounds(n, passed):
    assert measuring.check_questions_needed(n).passed == passed


def derived(before, gained, lost):
    change = gained - lost
    after = before + change
    own = before * (1 - before) + after * (1 - after)
    same = gained + lost - change**2
    return 1.96**2 * own / change**2, 1.96**2 * same / change**2


def test_the_numbers_of_questions_make_the_bar_as_long_as_the_change():
    assert measuring.check_needed(derived).passed
    own, same = map(round, derived(0.416, 0.0, 0.044))
    rng = np.random.default_rng(0)
    first, second = (rng.random((4000, own)) < share for share in (0.416, 0.372))
    bar = 1.96 * (second.mean(axis=1) - first.mean(axis=1)).std()
    assert bar == pytest.approx(0.044, rel=0.05)
    lost = rng.random((4000, same)) < 0.044
    assert 1.96 * lost.mean(axis=1).std() == pytest.approx(0.044, rel=0.05)


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (lambda b, g, lost: 3.84 * b * (1 - b) / (g - lost) ** 2, "two numbers"),
        (lambda b, g, lost: (3.84 * b * (1 - b) / (g - lost) ** 2,) * 2, "both runs"),
        (
            lambda b, g, lost: (
                derived(b, g, lost)[0],
                3.8416 * (g + lost) / (g - lost) ** 2,
            ),
            "nothing to do with each other",
        ),
        (
            lambda b, g, lost: (derived(b, g, lost)[0],) * 2,
            "what a question changes by",
        ),
        (
            lambda b, g, lost: derived(b, max(g, lost), min(g, lost)),
            "work for losses",
        ),
    ],
)
def test_a_wrong_number_of_questions_is_told_why(answer, complaint):
    check = measuring.check_needed(answer)
    assert not check.passed and complaint in check.message
