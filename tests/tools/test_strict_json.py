"""Strict JSON: what json reads, but for what a checker should not let pass."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tools.calls import LONGEST_JSON, Malformed, read_json, read_json_values

words = st.text(max_size=9)
numbers = st.integers(-(10**20), 10**20)
numbers |= st.floats(allow_nan=False, allow_infinity=False)
flat = st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8"))
lists = st.lists(flat, max_size=3) | st.dictionaries(words, flat, max_size=3)
values = flat | lists | st.lists(lists, max_size=2)


@settings(deadline=None, max_examples=80)
@given(values, words)
def test_it_reads_what_json_reads_and_says_where_it_ends(value, rest):
    text = json.dumps(value)
    if len(text) < LONGEST_JSON and text.isascii() and "\\ud" not in text:
        assert read_json(f"x{text} {rest}", 1) == (value, 1 + len(text))


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "broken"),
        ("{'a': 1}", "broken"),
        ('{"a": 1,}', "broken"),
        ('{"a": 1', "broken"),
        ('{"a": 1, "a": 1}', "twice"),
        ('[{"b": {"a": 1, "a": 2}}]', "twice"),
        ("NaN", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ("1" * 25, "more than 24"),
        ("0." + "1" * 23, "more than 24"),
        ('"\\ud800"', "half a character"),
        ('{"\\udfff": 1}', "half a character"),
        ('["\ud800"]', "half a character"),
        ("[[[[[[1]]]]]]", "nested more than 5"),
        ('{"a":' * 6 + "1" + "}" * 6, "nested more than 5"),
        ("[" * 1900, "nested more than 5"),
        ("[" * 10**6, "nested more than 5"),
        ('[["]]"' + "[" * 4, "nested more than 5"),
        ('"' + "x" * 3000 + '"', "longer than 2000"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_what_is_not_let_pass_is_said(text, reason):
    with pytest.raises(Malformed, match=reason) as error:
        read_json(text)
    assert len(str(error.value)) < 120


def test_five_deep_is_read_and_brackets_in_a_text_are_text():
    assert read_json("[[[[[1]]]]]")[0] == [[[[[1]]]]]
    flat = ["[[[[[[[", '\\"[[[[[[[', {"{{{{{{{": "]"}]
    assert read_json(json.dumps(flat) + "[" * 99)[0] == flat


def test_the_reason_does_not_hang_on_the_stack_that_is_left():
    text = "[" * 300 + "]" * 300

    def reason(frames):
        if frames:
            return reason(frames - 1)
        with pytest.raises(Malformed) as error:
            read_json(text)
        return str(error.value)

    assert reason(0) == reason(sys.getrecursionlimit() - 250)


def test_values_stand_one_after_the_other():
    assert read_json_values(' 1\n{"a": [2]} "x" ') == [1, {"a": [2]}, "x"]
    with pytest.raises(Malformed, match="broken"):
        read_json_values("1, 2")
    with pytest.raises(Malformed, match="nothing in it"):
        read_json_values(" \n")
