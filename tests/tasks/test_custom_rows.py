"""Files of a learner's own: what can be used is used, what cannot is named."""

import csv
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import batches, runtime
from helpers.evaluation import evaluate
from helpers.generation import Rollouts
from helpers.model import weights
from helpers.rewards import correct, extract_strict
from helpers.tasks import custom_rows, word_problems
from helpers.text import chat

GOOD = {"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}


@pytest.fixture(scope="module")
def tokenizer():
    return chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "sft")


def write(path, *lines):
    encoded = [x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines]
    path.write_bytes(b"\n".join(encoded))
    return path


def numbered(count):
    return [GOOD | {"question": f"What is {i} + 4?"} for i in range(count)]


def test_rows_are_read_in_order_with_all_their_columns(tmp_path):
    rows = [row | {"source": "mine"} for row in numbered(3)]
    lines = [b"\xef\xbb\xbf" + json.dumps(rows[0]).encode(), b"  ", *rows[1:], b""]
    found = custom_rows.read(write(tmp_path / "mine.jsonl", *lines))
    assert found.rows == rows and not found.faults
    assert str(found) == "3 rows can be used, 0 are left out."


BROKEN = {
    "no JSON": b'{"question": "cut o',
    "no UTF-8 text": b'{"question": "\xff", "answer": "b"}',
    "no JSON object with named columns": b'["question", "answer"]',
    'a number in the column "question": write it in quotes, such as "5"': b'{"questi'
    b'on": 3, "answer": "b"}',
    'true or false in the column "answer": write it in quotes': b'{"question": "a", '
    b'"answer": true}',
    'no text in the column "answer", but a list or an object: write its text': (
        b'{"question": "a", "answer": ["b"]}'
    ),
    "the question has no letter that can be seen": json.dumps(
        GOOD | {"question": "\u200b\u2060"}
    ).encode(),
    "the answer has no letter that can be seen": json.dumps(
        {"question": "a", "answer": "\7"}
    ).encode(),
    "the answer has a NUL character in it": json.dumps(
        {"question": "a", "answer": "b\0"}
    ).encode(),
    "a question that came before, but for capitals, blanks or codes": b'{"question": '
    b'"what IS  2 + 3?", "answer": "b"}',
    'no text in the column "answer"': b'{"question": "a"}',
    "the answer is empty": b'{"question": "a", "answer": " \\n"}',
    "a question that came before": json.dumps(GOOD).encode(),
    'the column "self" is what a reward calls its own: rename it, or say in columns= '
    "which of ours it is": b'{"question": "a", "answer": "b", "self": 1}',
    "other columns than most rows: level": b'{"question":"a","answer":"b","level":1}',
}


def test_a_number_too_large_for_one_is_no_json(tmp_path):
    rows = [row | {"level": 1.5} for row in numbered(3)]
    lines = [*rows, b'{"question": "a", "answer": "b", "level": 1e999}']
    found = custom_rows.read(write(tmp_path / "mine.jsonl", *lines))
    (what,) = found.faults
    assert found.rows == rows and what.startswith("no JSON: a number too large")


def test_a_question_that_was_left_out_did_not_come_before(tokenizer):
    long = GOOD | {"answer": "2 + 3 = 5, " * 99 + "so\n#### 5"}
    found = custom_rows.check([long, GOOD], tokenizer, completion_tokens=64)
    assert found.rows == [GOOD]
    (what,) = found.faults
    assert what.startswith("an answer of more than 64") and found.faults[what] == [
        "row 1"
    ]
    other = GOOD | {"level": 1}
    rows = custom_rows.check([other, *numbered(3), GOOD]).rows
    assert rows == [*numbered(3), GOOD]


def test_a_column_of_ours_that_is_misspelt_is_named():
    with pytest.raises(ValueError, match="'qestion', and ours are question and answer"):
        custom_rows.check([GOOD], columns={"qestion": "prompt"})


@pytest.mark.parametrize("what", BROKEN)
def test_a_row_that_cannot_be_used_is_named_with_its_line(what, tmp_path):
    lines = [GOOD, *numbered(3), BROKEN[what]]
    found = custom_rows.read(write(tmp_path / "mine.jsonl", *lines))
    assert found.rows == [GOOD, *numbered(3)]
    assert found.faults == {what: ["line 5"]}
    assert f"1 × {what}: line 5" in str(found)


def test_a_folder_is_no_file_of_rows(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder. Name the file"):
        custom_rows.read(tmp_path)


def test_a_gold_that_raises_is_named_with_the_row():
    rows = [*numbered(2), GOOD | {"answer": "none"}]
    found = custom_rows.check(rows, gold=lambda text: text.split("#### ")[1])
    assert found.rows == numbered(2)
    assert found.faults == {"gold= raises IndexError on the answer": ["row 3"]}
    with pytest.raises(ValueError, match="ZeroDivisionError on the answer: row 1, "):
        custom_rows.check(rows, gold=lambda text: 1 / 0)


def test_letters_of_all_scripts_and_joined_signs_can_be_seen():
    rows = [
        {"question": q, "answer": "\u0645\u0631\u062d\u0628\u0627"}
        for q in ("नमस्ते", "你好", "👩\u200d👩\u200d👧", "½", "—", "a\u200b")
    ]
    assert custom_rows.check(rows).rows == rows


@pytest.mark.parametrize(
    "line, what",
    [
        (
            b'{"question": "a", "answer": "b", "x": NaN}',
            "no JSON: NaN is none of its numbers, write null",
        ),
        (b'{"question": "a\\ud83d", "answer": "b"}', "no UTF-8 text"),
        (
            b'{"question": "a", "answer": "b", "answer": "c"}',
            "a name stands twice in one object",
        ),
        (b'{"\\ud83d": 1, "\\ud83d": 2}', "a name stands twice in one object"),
        (b"[" * 200_000, "no JSON"),
        (b'"' + b"x" * 2_500_000, "a line of more than 1,000,000 bytes"),
    ],
)
def test_hostile_lines_are_faults_and_the_next_row_is_read(line, what, tmp_path):
    found = custom_rows.read(write(tmp_path / "mine.jsonl", line, GOOD))
    assert found.rows == [GOOD] and found.faults == {what: ["line 1"]}


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(json.dumps(GOOD).encode()))))
def test_any_file_is_read_or_refused_by_name(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("own") / "mine.jsonl"
    whole = b"\n".join(lines)
    path.write_bytes(whole)
    if json.dumps(GOOD).encode() not in whole.split(b"\n"):
        return
    found = custom_rows.read(path)
    assert found.rows == [GOOD]
    wrong = [line for line in whole.split(b"\n") if line.strip()][1:]
    assert sum(map(len, found.faults.values())) == len(wrong)


def test_a_report_names_the_first_places_only(tmp_path):
    lines = [GOOD, *[b"nothing"] * 7]
    found = custom_rows.read(write(tmp_path / "mine.jsonl", *lines))
    assert str(found).splitlines() == [
        "1 rows can be used, 7 are left out.",
        "  7 × no JSON: line 2, line 3, line 4, line 5, line 6, …",
    ]


def test_a_report_repeats_no_control_characters_or_long_names_of_a_file(tmp_path):
    evil = "\x1b[2J 3 rows can be used\n" + "x" * 300_000
    many = dict.fromkeys(map("column {}".format, range(1000)), 1)
    lines = [*numbered(3), GOOD | {evil: 1}, GOOD | many]
    report = str(custom_rows.read(write(tmp_path / "mine.jsonl", *lines)))
    assert "\\x1b[2J 3 rows" in report and "column 0, column 1" in report
    assert len(report) < 400 and len(report.splitlines()) == 3
    assert all(line.isprintable() for line in report.splitlines())


def test_other_names_of_columns():
    records = [{"prompt": "What is 2 + 3?", "response": "#### 5", "id": 1}]
    names = {"question": "prompt", "answer": "response"}
    found = custom_rows.check(records, columns=names)
    assert found.rows == [{"question": "What is 2 + 3?", "answer": "#### 5", "id": 1}]
    with pytest.raises(ValueError, match='no text in the column "prompt": row 1'):
        custom_rows.check([GOOD], columns=names)


def test_answers_that_cannot_be_graded_are_left_out():
    bad = {"question": "And 3 + 3?", "answer": "six"}
    found = custom_rows.check([GOOD, bad], gold=extract_strict)
    assert found.rows == [GOOD]
    assert found.faults == {"the answer has nothing to be graded by": ["row 2"]}


@pytest.mark.parametrize("name", ["prompts", "completions"])
def test_a_column_that_rewards_call_their_own_is_a_fault(name):
    rows = [{"question": f"{i}?", "answer": "a", name: "x"} for i in range(3)]
    rows.append({"question": "4?", "answer": "b"})
    found = custom_rows.check(rows)
    assert len(found.rows) == 1 and f'the column "{name}"' in str(found)
    theirs = [{"question": "5?", name: "c"}]
    (row,) = custom_rows.check(theirs, columns={"answer": name}).rows
    assert row == {"question": "5?", "answer": "c"}


@pytest.mark.parametrize("every_row", [True, False])
def test_a_comma_too_many_in_a_table_is_a_fault_and_no_column(every_row):
    """csv.DictReader keeps what has no name under None."""
    lines = ["What is 1+1?,#### 2,", "What is 1+2?,#### 3" + "," * every_row]
    records = csv.DictReader(["question,answer", *lines])
    what = "a column whose name is no text .*after a comma at the row's end"
    if every_row:
        with pytest.raises(ValueError, match=f"{what}.*row 1, row 2"):
            custom_rows.check(records)
    else:
        found = custom_rows.check(records)
        assert found.rows == [{"question": "What is 1+2?", "answer": "#### 3"}]
        assert re.match(what, *found.faults)


def test_half_a_character_is_a_fault_wherever_the_rows_are_from():
    rows = [{"question": "a\ud83d", "answer": "b"}, {"question": "c", "answer": "d"}]
    found = custom_rows.check(rows)
    assert len(found.rows) == 1 and found.faults == {"no UTF-8 text": ["row 1"]}


def test_rows_over_the_budget_are_left_out(tokenizer):
    long = GOOD | {"question": "Count. " * 50}
    talk = {"question": "And 3 + 3?", "answer": "3 + 3 = 6. " * 50}
    found = custom_rows.check(
        [GOOD, long, talk], tokenizer, prompt_tokens=48, completion_tokens=64
    )
    assert found.rows == [GOOD]
    assert found.faults == {
        "a prompt of more than 48 tokens: shorten it, or raise the limit": ["row 2"],
        "an answer of more than 64 tokens, its end included: shorten it, or raise the "
        "limit": ["row 3"],
    }
    (prompt,) = chat.prompts_tokens(tokenizer, [GOOD["question"]])
    exact = {"prompt_tokens": len(prompt)}
    assert custom_rows.check([GOOD], tokenizer, **exact).rows == [GOOD]
    with pytest.raises(ValueError, match="by a tokenizer"):
        custom_rows.check([GOOD], prompt_tokens=48)


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
    fits = prompt_room >= 0 and answer_room >= 0 and len(tokens) <= length
    if not fits:
        with pytest.raises(ValueError, match="more than"):
            custom_rows.check([GOOD], tokenizer, **limits)
        return
    assert custom_rows.check([GOOD], tokenizer, **limits).rows == [GOOD]
    packed = batches.packed_rows([(tokens, mask)], batch=1, length=length, seed=0)
    assert next(packed)["loss_mask"].sum() == sum(mask)


def test_no_row_at_all_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"No row of .*mine.jsonl.*\n.*\n.*no JSON: "):
        custom_rows.read(write(tmp_path / "mine.jsonl", b"nothing"))
    with pytest.raises(ValueError, match="No row of the records"):
        custom_rows.check([])
    with pytest.raises(FileNotFoundError, match="one JSON object a line"):
        custom_rows.read(tmp_path / "other.jsonl")


def test_its_rows_are_answered_rewarded_and_graded(tokenizer, tmp_path):
    made = word_problems.generate(12, seed=1, levels=(1,))
    lines = [{name: row[name] for name in custom_rows.COLUMNS} for row in made]
    found = custom_rows.read(
        write(tmp_path / "mine.jsonl", *lines), tokenizer, gold=extract_strict
    )
    model = weights.load(runtime.ROOT / "data" / "tiny" / "sft")
    prompts = batches.prompts(found.rows, tokenizer, batch=12, buckets=(48,), seed=0)
    limits = {"max_tokens": 32, "seed": 0}
    batch = next(Rollouts(model, prompts, correct, tokenizer, group=2, **limits))
    assert 0 < batch["rewards"].mean() < 1
    report = evaluate(
        model, tokenizer, found.rows, samples=0, buckets=(48,), log=False, **limits
    )
    assert report.n == 12 and 0 < report.greedy < 1


def test_where_no_column_is_known_it_is_said_how_to_name_them():
    with pytest.raises(ValueError, match='name yours in columns={"question": ...') as e:
        custom_rows.check([{"text": "Good film.", "label": "1"}])
    assert custom_rows.check(
        [{"text": "Good film.", "label": "1"}],
        columns={"question": "text", "answer": "label"},
    ).rows
    with pytest.raises(ValueError) as e:
        custom_rows.check([{"question": "How many?"}])
    assert "name yours" not in str(e.value)
