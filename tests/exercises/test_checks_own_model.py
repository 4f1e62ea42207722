"""The self-checks of notebook 15 refuse what learners write at first."""

import re

import pytest

from helpers.exercises import own_model as checks
from helpers.rewards import annotations, extract_strict

ROW = {
    "question": "Mia has 2 pens and buys 3 more. How many pens does Mia have?",
    "answer": "<<2+3=6>>6 pens.\n#### 6",
    "number": "5",
}


def largest_rank(matrices, chip, frozen=2, trained=16, spare=0.1):
    both = sum(frozen * rows * columns for rows, columns in matrices)
    for rank in range(64, 0, -1):
        beside = trained * rank * sum(map(sum, matrices))
        if both + beside <= (1 - spare) * chip:
            return rank


@pytest.mark.parametrize(
    "mistake, said",
    [
        ({"spare": 0}, "fit what it says"),
        ({"frozen": 0}, "None where the frozen model"),
        ({"trained": 4}, "fit what it says"),
        ({"trained": 20}, "sixteen for a trained one"),
        ({"frozen": 4}, "sixteen for a trained one"),
    ],
)
def test_ranks_that_do_not_fit(mistake, said):
    verdict = checks.check_largest_rank(lambda *given: largest_rank(*given, **mistake))
    assert not verdict.passed and said in verdict.message, verdict.message
    assert checks.check_largest_rank(largest_rank).passed


@pytest.mark.parametrize(
    "row, said",
    [
        (None, "a row in place of None"),
        (ROW | {"answer": "<<2+3=5>>5 pens.\n#### 5"}, "another number"),
        (ROW | {"answer": "#### 5.0"}, "another number"),
        (ROW | {"answer": "six pens"}, "pass the reader"),
        (ROW | {"question": " "}, "pass the reader"),
        (ROW | {"number": 5}, "all of them text"),
        (ROW | {"number": "five"}, "have the right number"),
        (ROW | {"number": "6", "answer": "#### 5"}, "have the right number"),
        (ROW | {"question": "How many?"}, "ask what"),
        ({"question": "?", "answer": "#### 5"}, "a question, an answer and a number"),
    ],
)
def test_rows_that_are_refused_or_true(row, said):
    verdict = checks.check_false_row(row)
    assert not verdict.passed and said in verdict.message
    assert checks.check_false_row(ROW).passed


def used(text):
    """The course's own: the last sum's value is the number."""
    said, _, number = text.rstrip().rpartition("#### ")
    left, _, value = said.split("<<")[-1].split(">>")[0].rpartition("=")
    holds = annotations(text)
    computes = re.search(r"[\d)] *[-+*/]", left)
    right = value == number.replace(",", "")
    return float(bool(computes) and bool(holds) and all(holds) and right)


def of_any_value(text):
    """The same, and a sum need not compute anything."""
    said, _, number = text.rstrip().rpartition("#### ")
    value = said.split("<<")[-1].split(">>")[0].split("=")[-1]
    holds = annotations(text)
    return float(bool(holds) and all(holds) and value == number)


def any_sum_holds(text):
    return float(any(annotations(text)) and used(text.replace("<<2+2=5>>", "")))


def value_anywhere(text):
    number = text.rpartition("#### ")[2]
    return float(all(annotations(text)) and f"={number}>>" in text)


def value_as_an_ending(text):
    number = text.rpartition("#### ")[2]
    value = text.rpartition("=")[2].partition(">>")[0]
    return float(bool(annotations(text)) and all(annotations(text)) and value in number)


def as_a_beginning(text):
    number = text.rpartition("#### ")[2]
    value = text.rpartition("=")[2].partition(">>")[0]
    return float(bool(annotations(text)) and all(annotations(text)) and number in value)


@pytest.mark.parametrize(
    "answer, said",
    [
        (lambda text: 1.0, "no sum is shown"),
        (lambda text: 0.0, "pay 1.0"),
        (lambda text: float("<<" in text), "false"),
        (lambda text: float(all(annotations(text))), "no sum is shown"),
        (lambda text: float(any(annotations(text))), "not the number"),
        (
            lambda text: float(bool(annotations(text)) and all(annotations(text))),
            "not the number",
        ),
        (lambda text: float(extract_strict(text) == 5), "pay 1.0"),
        (of_any_value, "computes nothing"),
        (any_sum_holds, "all of them"),
        (value_anywhere, "the last sum"),
        (value_as_an_ending, "the last sum"),
        (as_a_beginning, "the last sum"),
        (lambda text: None, "but it raised"),
        (lambda text: 1 / 0, "but it raised"),
    ],
)
def test_rewards_that_can_be_bought(answer, said):
    verdict = checks.check_sum_is_used(answer)
    assert not verdict.passed and said in verdict.message, verdict.message
    assert checks.check_sum_is_used(used).passed


def computed(steps, every, pulled, kept=lambda last, every: last - last % every):
    done, saved = [], 0
    for last in [*pulled, steps]:
        done += range(saved + 1, last + 1)
        saved = kept(last, every)
    return done


@pytest.mark.parametrize(
    "kept, said",
    [
        (lambda last, every: 0, "not from the beginning"),
        (lambda last, every: last, "to the end of the run"),
        (lambda last, every: max(last - every, 0), "behind the last checkpoint"),
        (lambda last, every: max((last - 1) // every * every, 0), "just written"),
        (lambda last, every: max(last - last % every, every), "begin anew"),
    ],
)
def test_steps_of_sessions_that_go_on_elsewhere(kept, said):
    verdict = checks.check_computed(lambda *run: computed(*run, kept=kept))
    assert not verdict.passed and said in verdict.message, verdict.message
    assert checks.check_computed(computed).passed
