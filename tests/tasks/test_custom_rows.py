"""Rows of a user's own: common forms are converted, what cannot be used is counted."""

import collections
import json
import math
import unicodedata

import datasets
import pandas
import pyarrow
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers import batches, runtime
from helpers.generation import Rollouts
from helpers.model import weights
from helpers.rewards import correct, extract_strict
from helpers.tasks import custom_rows, word_problems
from helpers.tasks.custom_rows import plain
from helpers.text import chat

GOOD = {"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}
UNSEEN = "\u200b\u00ad\u2060\ufeff"  # of no width


@pytest.fixture(scope="module")
def tokenizer():
    return chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "sft")


def numbered(count, **more):
    return [GOOD | {"question": f"What is {i} + 4?"} | more for i in range(count)]


def write(path, *lines):
    encoded = [x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines]
    path.write_bytes(b"\n".join(encoded))
    return path


ROWS = numbered(3, number="00501")


def as_arrow(path):
    datasets.Dataset.from_list(ROWS).save_to_disk(path.parent / "table")
    next((path.parent / "table").glob("*.arrow")).rename(path)


FILES = {
    "rows.jsonl": lambda p: write(p, b"\xef\xbb\xbf" + json.dumps(ROWS[0]).encode(),
                                  b"  ", *ROWS[1:], b""),
    "utf-16.jsonl": lambda p: p.write_text("\n".join(map(json.dumps, ROWS)), "utf-16"),
    "array.json": lambda p: p.write_text(json.dumps(ROWS, indent=2)),
    "title.json": lambda p: p.write_text(json.dumps({"title": "mine", "data": ROWS})),
    "rows.csv": lambda p: pandas.DataFrame(ROWS).to_csv(p, index=False),
    "excel.csv": lambda p: pandas.DataFrame(ROWS).to_csv(
        p, index=False, sep=";", encoding="utf-8-sig"),
    "rows.tsv": lambda p: pandas.DataFrame(ROWS).to_csv(p, index=False, sep="\t"),
    "rows.parquet": lambda p: pandas.DataFrame(ROWS).to_parquet(p),
    "rows.arrow": as_arrow,
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_rows(name, tmp_path, monkeypatch):
    """Leading zeros included: 00501 is no number."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    FILES[name](tmp_path / name)
    loaded = custom_rows.read(tmp_path / name)
    assert loaded.rows == ROWS and not loaded.dropped
    assert str(loaded) == "3 rows can be used, 0 are left out."


TABLES = {
    "one by one": iter(ROWS),
    "datasets": datasets.Dataset.from_list(ROWS),
    "splits": datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}),
    "pandas": pandas.DataFrame(ROWS),
    "pyarrow": pyarrow.Table.from_pylist(ROWS),
    "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
}


def test_every_form_of_table_gives_the_same_rows():
    for form, table in TABLES.items():
        assert custom_rows.check(table).rows == ROWS, form


Q, A = "What is 2?", "#### 2"
FORMS = {
    "other names": {"Prompt": Q, "completion": A},
    "alpaca": {"instruction": "What is", "input": "2?", "output": A},
    "alpaca, no input": {"instruction": Q, "input": "", "output": A},
    "messages": {"messages": [{"role": "user", "content": Q},
                              {"role": "assistant", "content": A}]},
    "sharegpt": {"conversations": [{"from": "human", "value": Q},
                                   {"from": "gpt", "value": A}]},
}  # fmt: skip


def test_rows_as_other_data_sets_have_them_are_converted():
    for form, record in FORMS.items():
        expected = "What is\n\n2?" if form == "alpaca" else Q
        rows = custom_rows.check([record]).rows
        assert rows == [{"question": expected, "answer": A}], form


def test_numbers_and_names_of_a_users_own_are_converted():
    names = {"question": "text", "answer": "label"}
    records = [{"text": "a", "label": 5, "prompts": "x", "id": 1},
               {"text": "b", "label": True, "prompts": "y", "id": "2"}]  # fmt: skip
    assert custom_rows.check(records, columns=names).rows == [
        {"question": "a", "answer": "5", "prompts_": "x", "id": "1"},
        {"question": "b", "answer": "true", "prompts_": "y", "id": "2"},
    ]
    with pytest.raises(ValueError, match="'qestion', and ours are question and answer"):
        custom_rows.check([GOOD], columns={"qestion": "prompt"})


BROKEN = {
    "no JSON": b'{"question": "cut o',
    "no JSON: NaN is not one of its numbers, write null": b'{"question": NaN}',
    "no object with named columns": b'["question", "answer"]',
    'no text in the column "answer"': b'{"question": "a"}',
    'a list or an object in the column "answer": write its text': (
        b'{"question": "a", "answer": ["b"]}'
    ),
    "no UTF-8 text": b'{"question": "\xff", "answer": "b"}',
    "the question is empty or cannot be seen": b'{"question": "\\u0007"}',
    "the answer is empty or cannot be seen": b'{"question": "a", "answer": " \\n"}',
    "a question that came before": b'{"question": "what IS  2 + 3?", "answer": "b"}',
    '"messages" of several turns: make one row of each': (
        b'{"messages": [{"role": "user", "content": "a"}]}'
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_row_that_cannot_be_used_is_named_with_its_line(what, tmp_path):
    lines = [GOOD, *numbered(3), BROKEN[what]]
    loaded = custom_rows.read(write(tmp_path / "mine.jsonl", *lines))
    assert loaded.rows == [GOOD, *numbered(3)]
    assert loaded.dropped == {what: ["line 5"]}
    assert f"1 × {what}: line 5" in str(loaded)


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(json.dumps(GOOD).encode()))))
def test_any_file_is_read_and_every_other_line_counted(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("custom") / "mine.jsonl"
    whole = b"\n".join([json.dumps(GOOD).encode(), *lines])
    path.write_bytes(whole)
    loaded = custom_rows.read(path)
    assert loaded.rows == [GOOD]
    text = whole.decode("utf-8", "surrogateescape")
    others = [line for line in text.split("\n") if line.strip()][1:]
    assert sum(map(len, loaded.dropped.values())) == len(others)


def test_a_csv_file_with_rows_of_another_length_and_encoding(tmp_path):
    lines = "question,answer,x\ncafé?,a,1\nb?,b,2,3\nc?,c\nNA,NA,NA\n"
    path = tmp_path / "mine.csv"
    path.write_bytes(lines.encode("cp1252"))
    loaded = custom_rows.read(path)
    assert loaded.rows == [
        {"question": "café?", "answer": "a", "x": "1"},
        {"question": "NA", "answer": "NA", "x": "NA"},
    ]
    assert sum(map(len, loaded.dropped.values())) == 2


def test_no_row_at_all_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"No row of .*mine.jsonl.*\n.*\n.*no JSON: "):
        custom_rows.read(write(tmp_path / "mine.jsonl", b"nothing"))
    with pytest.raises(ValueError, match='columns={"question": ...'):
        custom_rows.check([{"text": "Good film.", "label": "1"}])
    with pytest.raises(FileNotFoundError, match="no file .*other.jsonl"):
        custom_rows.read(tmp_path / "other.jsonl")
    with pytest.raises(IsADirectoryError, match="Name the file"):
        custom_rows.read(tmp_path)
    with pytest.raises(ValueError, match="custom_rows.read"):
        custom_rows.check("mine.jsonl")


# --- further columns ---


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, math.nan, "1", "2"]), min_size=1, max_size=8))
def test_a_column_is_filled_in_all_rows_or_taken_out(values):
    rows = [{"question": f"{i}?", "answer": "a", "n": x} for i, x in enumerate(values)]
    good = [row for row in rows if isinstance(row["n"], str)]
    loaded = custom_rows.check(rows)
    if 2 * len(good) < len(rows):
        assert loaded.sparse == {"n": len(good)} and not loaded.dropped
        assert loaded.rows == [{"question": r["question"], "answer": "a"} for r in rows]
        return
    assert loaded.rows == good and not loaded.sparse
    places = [f"row {i}" for i, row in enumerate(rows, 1) if row not in good]
    assert sum(loaded.dropped.values(), []) == places


def test_answers_that_cannot_be_graded_are_left_out():
    rows = [GOOD, {"question": "And 3 + 3?", "answer": "six"}]
    loaded = custom_rows.check(rows, gold=extract_strict)
    assert loaded.rows == [GOOD]
    assert loaded.dropped == {"the answer has nothing to be graded by": ["row 2"]}
    loaded = custom_rows.check(rows, gold=lambda text: text.split("#### ")[1])
    assert loaded.dropped == {"gold= raises IndexError": ["row 2"]}


# --- limits ---


@settings(deadline=None)
@given(prompt_room=st.integers(-3, 4), answer_room=st.integers(-3, 4))
def test_what_is_within_the_budgets_can_be_trained_on_and_ended(
    prompt_room, answer_room, tokenizer
):
    """In a row of both budgets together, and the end of an answer within its own."""
    question, answer = GOOD["question"], GOOD["answer"]
    (prompt,) = chat.prompts_tokens(tokenizer, [question])
    ((tokens, mask),) = chat.examples_tokens(tokenizer, [question], [answer])
    limits = {
        "prompt_tokens": len(prompt) + prompt_room,
        "completion_tokens": sum(mask) + answer_room,
    }
    length = sum(limits.values())
    if prompt_room < 0 or answer_room < 0 or len(tokens) > length:
        with pytest.raises(ValueError, match="more than .*shorten it, or raise"):
            custom_rows.check([GOOD], tokenizer, **limits)
        return
    assert custom_rows.check([GOOD], tokenizer, **limits).rows == [GOOD]
    packed = batches.packed_rows([(tokens, mask)], batch=1, length=length, seed=0)
    assert next(packed)["loss_mask"].sum() == sum(mask)


def test_a_question_that_was_left_out_did_not_come_before(tokenizer):
    long = GOOD | {"answer": "2 + 3 = 5, " * 99 + "so\n#### 5"}
    loaded = custom_rows.check([long, GOOD], tokenizer, completion_tokens=64)
    assert loaded.rows == [GOOD]
    with pytest.raises(ValueError, match="by a tokenizer"):
        custom_rows.check([GOOD], prompt_tokens=48)


def test_its_rows_are_answered_and_rewarded(tokenizer, tmp_path):
    made = word_problems.generate(12, seed=1, levels=(1,))
    lines = [{name: row[name] for name in custom_rows.COLUMNS} for row in made]
    path = write(tmp_path / "mine.jsonl", *lines)
    rows = custom_rows.read(path, tokenizer, gold=extract_strict).rows
    model = weights.load(runtime.ROOT / "data" / "tiny" / "sft")
    prompts = batches.prompts(rows, tokenizer, batch=12, buckets=(48,), seed=0)
    limits = {"max_tokens": 32, "group": 2, "seed": 0}
    batch = next(Rollouts(model, prompts, correct, tokenizer, **limits))
    assert 0 < batch["rewards"].mean() < 1


# --- the split ---


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
    train, test = custom_rows.split(rows, 0.2)
    assert 0.18 < len(test) / len(rows) < 0.22
    for part in (train, test):
        for n in (20, 100):
            seen = collections.Counter(row["level"] for row in part[:n])
            assert min(seen[level] for level in range(3)) >= n / 6
    with pytest.raises(ValueError, match="to train on and 0 held out"):
        custom_rows.split(rows, 0.0)
    with pytest.raises(ValueError, match="share=.*at least 0 and at most 1"):
        custom_rows.split(rows, 1.5)


@settings(deadline=None)
@given(st.data(), st.text("aZé ñüßΣςﬁＡ１각नमस्ते\u0345\u01f0", min_size=1, max_size=12))
def test_questions_that_look_alike_are_one_question(data, text):
    form = data.draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
    twin = unicodedata.normalize(form, text)
    at = data.draw(st.integers(0, len(twin)))
    twin = twin[:at] + data.draw(st.sampled_from(["", *UNSEEN])) + twin[at:]
    assume(text.strip() and twin.strip(UNSEEN + " "))
    assert plain(text) == plain(twin)
    loaded = custom_rows.check([{"question": q, "answer": "a"} for q in (text, twin)])
    assert [row["question"] for row in loaded.rows] == [text.strip()]


def test_questions_that_look_different_are_two():
    for pair in ["5² 52", "x₂ x2", "1½ 11⁄2", "2① 21", "é e", "の ノ"]:
        rows = [{"question": f"What is {x}?", "answer": "a"} for x in pair.split()]
        assert custom_rows.check(rows).rows == rows


@pytest.mark.parametrize("parts", ["0-of-2", "0-of-1 0-of-2", "0-of-2 2-of-3"])
def test_a_part_of_a_split_is_not_taken_for_all_of_it(parts, tmp_path):
    for part in parts.split():
        (tmp_path / f"train-{part}.parquet").touch()
    with pytest.raises(FileNotFoundError, match="not all of one"):
        custom_rows.split_files(tmp_path, "train", "main")
