"""The values of written sums, by Python's own operators."""

import sys
from fractions import Fraction

import pytest
from hypothesis import given
from written_sums import expressions

from helpers.tools.calculator import calculate


@given(expressions)
def test_sums_agree_with_python(expression):
    text, value = expression
    assert calculate(text) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("16-3-4", 9),
        ("2+3*4", 14),
        ("24/4/2", 3),
        ("-3+5", 2),
        ("+3*+2", 6),
        ("180//3", 60),
        ("7//2*2", 6),
        ("2*-3", -6),
        (" 1 + 1 ", 2),
        (".5*4", 2),
        ("5.", 5),
        ("0.1+0.2", Fraction(3, 10)),
        ("((((1))))", 1),
    ],
)
def test_sums_know_precedence_signs_and_decimals(expression, value):
    assert calculate(expression) == value


def test_nothing_is_rounded():
    """7 // 2 and 9 // 1 are ints, whose quotient in Python is a float."""
    assert calculate("(7//2)/(9//1)") == Fraction(1, 3)


def test_sums_do_not_hang_on_the_stack_that_is_left():
    deep = "(" * 59 + "1" + ")" * 59

    def value(frames):
        return (
            value(frames - 1)
            if frames
            else (calculate(deep), calculate("-" * 119 + "1"))
        )

    assert value(0) == value(sys.getrecursionlimit() - 250) == (1, -1)


NOT_SUMS = ("", "()", "2*(3", "2)", "1 2", "2**3", "1/0", "1//0", "2+", "a", "1e3")
NOT_SUMS += (
    "1,000",
    "1.2.3",
    "(" * 119,
    "1" * 121,
    "__import__('os')",
    "2 if 1 else 3",
    "٣+1",
    "²",
    "1()",
    "(1)(2)",
    "1)(2",
    "-",
    "*2",
)


@pytest.mark.parametrize("expression", NOT_SUMS)
def test_what_is_no_sum_has_no_value(expression):
    assert calculate(expression) is None
