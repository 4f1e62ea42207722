"""Further columns of own rows go to rewards: filled, and of one kind; limits hold."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import runtime
from helpers.tasks import custom_rows
from helpers.text import chat

EMPTY = [None, math.nan, type("NAType", (), {})()]
VALUES = {
    "text": ["1", ""],
    "true or false": [True, False],
    "a number": [2, 3.0],
    "a list": [[3], []],
    "an object": [{"a": 1}],
}


def rows_with(values):
    return [
        {"question": f"{i}?", "answer": "a", "number": value}
        for i, value in enumerate(values)
    ]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*EMPTY, "1", "2"]), min_size=1, max_size=8))
def test_a_cell_without_a_value_is_a_fault_where_most_of_its_column_have_one(values):
    """A column with fewer is taken out of all rows; one with none stays."""
    rows = rows_with(values)
    good = [row for row in rows if isinstance(row["number"], str)]
    found = custom_rows.check(rows)
    if 0 < len(good) < len(rows) / 2:
        assert found.sparse == {"number": len(good)} and not found.faults
        assert found.rows == [
            {"question": row["question"], "answer": "a"} for row in rows
        ]
        assert f'"number" is left out: {len(good)} rows fill it' in str(found)
        return
    assert found.rows == (good or rows) and not found.sparse
    places = [f"row {i}" for i, row in enumerate(rows, 1) if row not in found.rows]
    for what in found.faults:
        assert what.startswith('nothing in the column "number": fill it, or leave')
    assert sum(found.faults.values(), []) == places


def test_a_whole_number_may_have_any_length():
    rows = rows_with([math.factorial(200), 1])
    assert custom_rows.check(rows).rows == rows


@pytest.mark.parametrize("nothing", EMPTY)
@pytest.mark.parametrize("name", custom_rows.COLUMNS)
def test_nothing_for_a_question_or_an_answer_is_called_so(name, nothing):
    row = {"question": "a", "answer": "b"} | {name: nothing}
    with pytest.raises(ValueError, match=f'nothing in the column "{name}": row 1'):
        custom_rows.check([row])


@settings(deadline=None)
@given(
    st.sampled_from(sorted(VALUES)),
    st.lists(st.sampled_from(sorted(VALUES)), max_size=3),
    st.data(),
)
def test_values_of_another_kind_than_most_rows_are_faults(usual, others, data):
    kinds = [usual] * (len(others) + 1) + others
    kinds = data.draw(st.permutations(kinds))
    rows = rows_with([data.draw(st.sampled_from(VALUES[kind])) for kind in kinds])
    found = custom_rows.check(rows)
    assert found.rows == [r for r, k in zip(rows, kinds, strict=True) if k == usual]
    for what in found.faults:
        assert f' in the column "number", where most rows have {usual}: write' in what
        assert what.split(" in the column")[0] in {*others}


def test_a_column_that_cannot_be_shown_is_not():
    rows = [row | {"\x1b" + "x" * 999: 1} for row in rows_with("12")]
    rows[1]["\x1b" + "x" * 999] = None
    (what,) = custom_rows.check(rows).faults
    assert what.isprintable() and len(what) < 150


@pytest.fixture(scope="module")
def tokenizer():
    return chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "sft")


@pytest.mark.parametrize("limit", [0, -1, 48.0, True, "48"])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_limit_that_is_no_count_is_refused_by_name(name, limit, tokenizer):
    for counter in (tokenizer, None):
        with pytest.raises(ValueError, match=f"{name}={limit!r}: pass a whole number"):
            custom_rows.check(rows_with("1"), counter, **{name: limit})


def test_without_limits_nothing_is_too_long(tokenizer):
    rows = rows_with("12")
    limits = {"prompt_tokens": None, "completion_tokens": None}
    assert custom_rows.check(rows, tokenizer, **limits).rows == rows
    with pytest.raises(ValueError, match="more than 1 tokens"):
        custom_rows.check(rows, tokenizer, prompt_tokens=1)
