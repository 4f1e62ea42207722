"""Held out or trained on: a question alone decides, however its letters are written."""

import collections
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.tasks import custom_rows
from helpers.tasks.row_faults import plain

UNSEEN = "\u200b\u00ad\u2060\ufeff"  # of no width


def numbered(count):
    return [{"question": f"What is {i} + 4?", "answer": "4"} for i in range(count)]


@pytest.mark.parametrize("share", ["0.2", None, float("nan"), -0.1, 1.5])
def test_a_share_that_is_none_is_named(share):
    with pytest.raises(ValueError, match="share=.*at least 0 and at most 1"):
        custom_rows.split(numbered(30), share)


@settings(deadline=None)
@given(st.permutations(range(60)), st.integers(40, 60))
def test_rows_that_come_later_anywhere_move_no_other(order, count):
    """Neither to the other part nor past one that was there before."""
    rows = numbered(60)
    today = custom_rows.split(rows[:count], 0.3)
    tomorrow = custom_rows.split([rows[i] for i in order], 0.3)
    assert sorted(sum(tomorrow, []), key=str) == sorted(rows, key=str)
    for part, later in zip(today, tomorrow, strict=True):
        assert [row for row in later if row in rows[:count]] == part


def test_the_first_rows_of_a_part_are_a_sample_of_a_sorted_file():
    rows = [
        {"question": f"Level {level} question {i}?", "answer": "4", "level": level}
        for level in range(3)
        for i in range(700)
    ]
    for part in custom_rows.split(rows, 0.2):
        for n in (20, 100):
            seen = collections.Counter(row["level"] for row in part[:n])
            assert min(seen[level] for level in range(3)) >= n / 6


def test_the_share_is_about_what_was_asked():
    rows = numbered(4000)
    assert 0.08 < len(custom_rows.split(rows, 0.1)[1]) / len(rows) < 0.12
    with pytest.raises(ValueError, match="leave 4000 to train on and 0 held out"):
        custom_rows.split(rows, 0.0)


def twins(draw, text):
    """The text, written in another way that looks the same."""
    form = draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
    other = unicodedata.normalize(form, text)
    at = draw(st.integers(0, len(other)))
    return other[:at] + draw(st.sampled_from(["", *UNSEEN])) + other[at:]


LETTERS = st.text("aZé ñüßΣςﬁＡ１각नमस्ते\u0345\u01f0", min_size=1, max_size=12)


@settings(deadline=None)
@given(st.data(), LETTERS)
def test_questions_that_look_alike_are_one_question(data, text):
    twin = twins(data.draw, text)
    assume(text.strip() and twin.strip(UNSEEN + " "))
    assert plain(text) == plain(twin)
    found = custom_rows.check([{"question": q, "answer": "a"} for q in (text, twin)])
    assert [row["question"] for row in found.rows] == [text.strip()]
    (what,) = found.faults
    assert what.startswith("a question that came before")


def test_twins_fall_on_one_side_of_the_split():
    rows = [
        {"question": f"How many cafés has town {i}?", "answer": "4"} for i in range(200)
    ]
    bare = [row["question"].casefold() for row in rows]
    for change in (
        lambda q: unicodedata.normalize("NFD", q),
        lambda q: q.replace("town", "to\u200bwn"),
        lambda q: q.replace(" ", "\u00a0").upper(),
    ):
        others = [row | {"question": change(row["question"])} for row in rows]
        ours, theirs = custom_rows.split(rows), custom_rows.split(others)
        for part, other in zip(ours, theirs, strict=True):
            assert [change(row["question"]) for row in part] == [
                row["question"] for row in other
            ]
    assert len(set(map(plain, bare))) == 200


@pytest.mark.parametrize("pair", ["5² 52", "x₂ x2", "1½ 11⁄2", "2① 21", "é e", "の ノ"])
def test_questions_that_look_different_are_two(pair):
    rows = [{"question": f"What is {x}?", "answer": "a"} for x in pair.split()]
    assert custom_rows.check(rows).rows == rows
