"""Drills and steps: exact, inside the tables, and covering what problems use."""

import random
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tasks.maths.problem_parts import Redraw, drill, minus, plus, share, times
from helpers.tasks.maths.word_problems import generate

OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a, b),
}


def facts_in(text):
    """(left, operator, right, value, value shown after it) of every annotation."""
    found = re.findall(r"<<(\d+)([-+*/])(\d+)=(\d+)>>(\d+)", text)
    return [(int(a), o, int(b), int(c), int(d)) for a, o, b, c, d in found]


def test_every_operation_of_the_problems_is_in_the_drills():
    rng = random.Random(0)
    row = drill(rng)
    assert re.fullmatch(r"(<<\d+[-+*/]\d+=\d+>>\d+ ?){9}", row) and row == row.strip()
    drills = " ".join(drill(rng) for _ in range(12000))
    facts = facts_in(drills)
    assert len(facts) == drills.count("<<") == 9 * 12000
    for left, operator, right, value, shown in facts:
        assert OPERATORS[operator](left, right) == value == shown >= 2
    drilled = {fact[:3] for fact in facts}
    products = [(a, b) for a in range(2, 15) for b in range(2, 10)]
    assert {(a, "*", b) for a, b in products} <= drilled
    assert {(a * b, "/", b) for a, b in products} <= drilled
    used = [
        op[:3]
        for row in generate(4000, seed=0, levels=(1, 2, 3, 4))
        for op in facts_in(row["answer"])
    ]
    missed = [operation for operation in used if operation not in drilled]
    assert len(missed) < 0.01 * len(used), missed
    for left, operator, right in missed:  # drawn too rarely, but inside the tables
        small, large = sorted(
            (left, right) if operator == "+" else (left - right, right)
        )
        assert operator in "+-" and small <= 40 and large <= 60


NUMBERS = st.integers(-20, 200)


@given(NUMBERS, NUMBERS)
def test_a_step_is_exact_and_in_the_tables_or_is_drawn_again(left, right):
    small, large = sorted((left, right))
    terms = small >= 2 and small <= 40 and large <= 60
    factors = small >= 2 and small <= 9 and large <= 14
    for operation, allowed, value in (
        (plus, terms, left + right),
        (times, factors, left * right),
    ):
        if allowed:
            assert operation(left, right).value == value
            undo = {plus: minus, times: share}[operation]
            assert undo(value, right).value == left
        else:
            with pytest.raises(Redraw):
                operation(left, right)


@pytest.mark.parametrize(
    ("operation", "left", "right"),
    [(minus, 3, 5), (minus, 5, 5), (minus, 99, 2), (share, 7, 2), (share, 7, 0)],
)
def test_negative_fractional_and_undrilled_results_are_drawn_again(
    operation, left, right
):
    with pytest.raises(Redraw):
        operation(left, right)


def test_a_step_prints_as_gsm8k_and_goes_on_into_the_next():
    cost = times(6, 5)
    assert str(cost) == "<<6*5=30>>30"
    assert str(plus(cost, 7)) == "<<30+7=37>>37"
    assert str(minus(50, cost)) == "<<50-30=20>>20"
    assert str(share(cost, 5)) == "<<30/5=6>>6"
