"""The calculator: sums against Python's fractions, and calls that make no sense."""

import json
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_sums import expressions

from helpers.rewards.answers import annotations
from helpers.tools import calculator
from helpers.tools.calculator import opened, reply, split

REAL = Path(
    os.environ.get("COURSE_GSM8K")
    or Path(__file__).parents[3] / "shared" / "data" / "gsm8k"
)
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d{0,3}[1-9])?")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("48/2", "24"), ("1/2", "0.5"), ("5/4", "1.25"), ("100/3", "33.3333"),
        ("2/3", "0.6667"), ("-2/3", "-0.6667"), ("16.50+22.50", "39"), ("5-9", "-4"),
        ("3-3", "0"), ("-0", "0"), ("0.1+0.2", "0.3"), (" 48 / 2 ", "24"), 
        ("((((1))))", "1"), ("20*.01*50", "10"), ("0.0001", "0.0001"), ("125", "125"),
        ("7//2", "3"),
        ("0.99999", "1"), ("999999*999999", "999998000001"),
    ],
)  # fmt: skip
def test_values_are_written_as_gsm8k_writes_them(expression, text):
    assert reply(expression) == f"{text}>>"


REFUSALS = ["", " ", "1/0", "1//0", "x*2", "two", "2*(3", "2)", "()", "1 2", "2**3"]
REFUSALS += ["20%*50", "$5*2", "1,000+1", "1e3", "٣+1", "４８/2", "²", "1=1", "<5", "½"]
REFUSALS += [
    "1(2)",
    "2)+(3",
    "1 2 3",
    "2+",
    "(" * 400 + "1" + ")" * 400,
    "1" * 121,
    "9*" * 59 + "9",
    "0.00001",
]
REFUSALS += ["__import__('os')", "\ud800", "\x00", "nan", "inf", "True"]


def test_what_is_no_sum_or_cannot_be_written_is_refused():
    for expression in REFUSALS:
        assert reply(expression) == "?>>", expression


@given(expressions)
def test_values_are_those_of_pythons_fractions(item):
    """To four decimals, and the reader of annotations agrees."""
    expression, value = item
    text = reply(expression)
    if value is None or len(expression) > calculator.LONGEST_SUM:
        assert text == "?>>"
    elif text == "?>>":
        assert 0 < abs(value) <= Fraction(1, 20_000) or abs(value) >= 10**9
    else:
        number = text.removesuffix(">>")
        assert NUMBER.fullmatch(number) and number != "-0"
        assert abs(Fraction(number) - value) <= Fraction(1, 20_000)
        if (value * 10**4).denominator == 1:
            assert Fraction(number) == value
        assert annotations(f"<<{expression}={text}") == [True]


@given(st.text() | st.text("0123456789.+-*/() $%,", max_size=140))
def test_anything_may_be_reply(expression):
    text = reply(expression)
    assert text == "?>>" or NUMBER.fullmatch(text.removesuffix(">>"))
    assert len(text) <= calculator.LONGEST_VALUE + 2


def is_open(text):
    """By hand: back from the `=`, `<<` comes before `>>` and before an end of line."""
    if not text.endswith("="):
        return None
    for start in reversed(range(len(text) - 1)):
        if text[start : start + 2] == "<<":
            return text[start + 2 : -1]
        if text[start] == "\n" or text[start : start + 2] == ">>":
            return None
    return None


@given(st.text("<>=1\n", max_size=12))
def test_a_call_is_open_where_walking_back_finds_its_mark(text):
    assert opened(text) == is_open(text)


def test_a_solution_is_cut_where_the_machine_writes():
    solution = "2*3 = $<<2*3=6.00>>6, <<6+1=8>>7.\n<<7/1= #### 7"
    pieces, rest = split(solution, 9)
    assert pieces == [
        ("2*3 = $<<2*3=", "6>>"),
        ("6, <<6+1=", "7>>"),
        ("7.\n<<7/1=", "7>>"),
    ]
    assert rest == " #### 7"
    pieces, rest = split(solution, 1)
    assert len(pieces) == 1 and rest == "6, <<6+1=8>>7.\n<<7/1= #### 7"
    assert split("", 9) == ([], "") and split("1 = 1", 9) == ([], "1 = 1")


def test_real_solutions_are_cut_at_every_annotation_and_say_the_same():
    """All of GSM8K: the machine can do every sum, and says what the author says."""
    if not REAL.is_dir():
        pytest.skip(f"no GSM8K in {REAL}: set COURSE_GSM8K to its folder")
    lines = (REAL / "train.jsonl").read_text("utf-8").split("\n")
    count = 0
    for answer in (json.loads(line)["answer"] for line in lines if line):
        pieces, rest = split(answer, 16)
        written = re.findall(r"<<[^\n]*?=([^\n]*?)>>", answer)
        results = [result.removesuffix(">>") for _, result in pieces]
        assert list(map(calculator.calculate, results)) == list(
            map(calculator.calculate, written)
        )
        whole = "".join(text + result for text, result in pieces) + rest
        assert all(annotations(whole)) and whole.count("<<") == len(written)
        count += len(written)
    assert count > 23_000
