"""Rows of a user's own: common forms are converted, what cannot be used is counted."""

import ast
import collections
import functools
import gzip
import itertools
import json
import math
import pathlib
import re
import tomllib
import unicodedata

import datasets
import pandas
import pyarrow
import pyarrow.feather
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers import batches, runtime
from helpers.generation import Rollouts
from helpers.model import weights
from helpers.rewards import correct, extract_strict
from helpers.tasks import custom_rows, row_files, word_problems
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
    "sep.csv": lambda p: p.write_text(
        "\nsep=;\n" + pandas.DataFrame(ROWS).to_csv(index=False, sep=";")),
    "pipes.csv": lambda p: pandas.DataFrame(ROWS).to_csv(
        p, index=False, sep="|", lineterminator="\r"),
    "rows.tsv": lambda p: pandas.DataFrame(ROWS).to_csv(p, index=False, sep="\t"),
    "rows.parquet": lambda p: pandas.DataFrame(ROWS).to_parquet(p),
    "rows.arrow": as_arrow,
    "file.feather": lambda p: pyarrow.feather.write_feather(
        pyarrow.Table.from_pylist(ROWS), p),
    "rows.jsonl.gz": lambda p: p.write_bytes(
        gzip.compress("\n".join(map(json.dumps, ROWS)).encode())),
    "rows.csv.gz": lambda p: pandas.DataFrame(ROWS).to_csv(p),
    "no ending": lambda p: write(p, *ROWS),
    **{f"pandas_{form}.json": functools.partial(
        pandas.DataFrame(ROWS).to_json, orient=form)
       for form in ("records", "columns", "index")},
    "named.json": lambda p: p.write_text(
        json.dumps({f"row {i}": row for i, row in enumerate(ROWS)})),
    "splits.json": lambda p: p.write_text(
        json.dumps({"test": ROWS[:1], "train": ROWS})),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_rows(name, tmp_path, monkeypatch):
    """Leading zeros included: 00501 is no number."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    FILES[name](tmp_path / name)
    monkeypatch.setenv("HOME", str(tmp_path))
    loaded = custom_rows.read(f"~/{name}")
    assert loaded.rows == ROWS and not loaded.dropped
    assert str(loaded) == "3 rows can be used, 0 are left out."


TABLES = {
    "one by one": iter(ROWS),
    "datasets": datasets.Dataset.from_list(ROWS),
    "features": datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
    "splits": datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}),
    "pandas": pandas.DataFrame(ROWS),
    "pyarrow": pyarrow.Table.from_pylist(ROWS),
    "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
}


def test_every_form_of_table_gives_the_same_rows():
    for form, table in TABLES.items():
        assert custom_rows.read(table).rows == ROWS, form


def test_tables_fill_up_messages_with_nulls_that_are_taken_out(tmp_path):
    """A table gives each message, tool and argument the fields of all others."""
    other = [
        user("Hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "type": "function",
                    "function": {"name": "add", "arguments": {"y": [1]}},
                }
            ],
        },
    ]
    records = [{"messages": USES}, {"messages": other}, {"messages": TURNS}]
    table = datasets.Dataset.from_list(records)
    table.to_parquet(tmp_path / "rows")
    expected = [row["messages"] for row in custom_rows.check(records).rows]
    for source in (table, table.to_pandas(), tmp_path / "rows"):
        rows = custom_rows.read(source).rows
        assert [row["messages"] for row in rows] == expected, source


def test_a_name_of_the_hub_is_read(monkeypatch):
    asked = []

    def load_dataset(*name):
        asked.append(name)
        if len(name) == 1:
            raise ValueError("Config name is missing. Pick one among ['main']")
        return TABLES["splits"]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert custom_rows.read("openai/gsm8k/main").rows == ROWS
    with pytest.raises(ValueError, match='as in "openai/gsm8k/main".*among'):
        custom_rows.read("openai/gsm8k")
    assert asked == [("openai/gsm8k", "main"), ("openai/gsm8k",)]


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


_BROKEN = pathlib.Path(__file__).with_name("broken_rows.toml").read_text("utf-8")
BROKEN = {why: line.encode() for why, line in tomllib.loads(_BROKEN).items()}
BROKEN["no UTF-8 text"] = b'{"question": "\xff", "answer": "b"}'


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
    lines = "question,answer,x\ncafé?,a,1\nb?,b,2,3\nc?,c\nNA,NA,NULL\nd?,NULL,1\n"
    path = tmp_path / "mine.csv"
    path.write_bytes(lines.encode("cp1252"))  # é is the same in cp1250
    loaded = custom_rows.read(path)
    assert loaded.rows == [
        {"question": "café?", "answer": "a", "x": "1"},
        {"question": "c?", "answer": "c", "x": None},
        {"question": "NA", "answer": "NA", "x": None},
    ]
    assert list(loaded.dropped.values()) == [["row 4"], ["'b?'…"]]


@pytest.mark.parametrize(
    "encoded",
    ["小明有三个苹果".encode("gbk"), "りんごは何個".encode("cp932"),
     "Сколько".encode("cp1251"), "café".encode() + b"\xff", "łódź".encode("cp1250"),
     "café".encode("mac_roman")],
)  # fmt: skip
def test_a_csv_file_in_another_encoding_is_not_read_as_western(encoded, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(b"question,answer\n" + encoded + b",5\n")
    with pytest.raises(ValueError, match="another encoding: save it as CSV UTF-8"):
        custom_rows.read(path)


def test_a_csv_file_of_excels_in_the_west_is_read_with_a_warning(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes("question,answer\n¿Cuántos años?,5\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="'¿Cuántos años.*save it as CSV UTF-8"):
        assert custom_rows.read(path).rows[0]["question"] == "¿Cuántos años?"


def test_columns_that_are_named_come_before_a_shape():
    record = {"prompt": "2?", "completion": "2", "messages": [user("?"), model("!")]}
    columns = {"question": "prompt", "answer": "completion"}
    row = custom_rows.check([record], columns=columns).rows[0]
    assert (row["question"], row["answer"]) == ("2?", "2") and "messages" not in row
    pair = {"prompt": [user("2?")], "good": "2", "bad": "3", "history": "of maths"}
    columns = {"question": "prompt", "chosen": "good", "rejected": "bad"}
    row = {"question": "2?", "chosen": "2", "rejected": "3", "history": "of maths"}
    assert custom_rows.check([pair], columns=columns).rows == [row]


def test_rows_that_need_no_answer_may_have_empty_ones(tokenizer):
    records = [{"question": "a?", "answer": ""}, {"question": "b?", "answer": "7"}]
    loaded = custom_rows.check(
        records, tokenizer, columns={"answer": None}, completion_tokens=9
    )
    assert [row["answer"] for row in loaded.rows] == [None, "7"]
    alpaca = {"instruction": "Add.", "input": "2 3"}
    loaded = custom_rows.check([alpaca], columns={"answer": None})
    assert loaded.rows == [{"question": "Add.\n\n2 3"}]


def test_no_row_at_all_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"No row of .*mine.jsonl.*\n.*\n.*no JSON: "):
        custom_rows.read(write(tmp_path / "mine.jsonl", b"nothing"))
    with pytest.raises(ValueError, match='columns={"question": ...'):
        custom_rows.check([{"text": "Good film.", "label": "1"}])
    with pytest.raises(FileNotFoundError, match="no file .*other.jsonl"):
        custom_rows.read(tmp_path / "other.jsonl")
    with pytest.raises(IsADirectoryError):
        custom_rows.read(tmp_path)
    with pytest.raises(ValueError, match="custom_rows.read"):
        custom_rows.check("mine.jsonl")


def test_the_advice_works_when_followed():
    """Also for rows of which rewards need no answer."""
    for record in ({"text": "Good?", "label": 1}, {"prompt": "Good?", "k": [1]}):
        with pytest.raises(ValueError) as error:
            custom_rows.check([record])
        columns = ast.literal_eval(re.search("columns=({.*?})", str(error.value))[1])
        assert (
            custom_rows.check([record], columns=columns).rows[0]["question"] == "Good?"
        )


# --- shapes ---


def user(text):
    return {"role": "user", "content": text}


def model(text, **more):
    return {"role": "assistant", "content": text} | more


def says(who, text):
    return {"from": who, "value": text}


SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [user("2 + 3?"), model("5"), user("And 4?"), model("9")]
FUNCTION = {"name": "calc", "description": "", "parameters": {"type": "object"}}
CALL = {"name": "calc", "arguments": {"x": 2}}
USES = [
    user("2 + 3?"),
    {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": CALL}]},
    {"role": "tool", "content": "5"},
    model("It is 5"),
]  # fmt: skip
OF_TURNS = {"question": TURNS[:3], "answer": "9", "messages": TURNS}
OF_USES = {"question": USES[:3], "answer": "It is 5", "messages": USES,
           "tools": [{"type": "function", "function": FUNCTION}]}  # fmt: skip
ONE = {"question": "2 + 3?", "answer": "5"}
BRIEF = {"question": [SYSTEM, user("2 + 3?")], "answer": "5"}
PAIR = {"question": "2 + 3?", "chosen": "5", "rejected": "6"}
LONG_PAIR = {"question": [*TURNS[:3]], "chosen": "9", "rejected": "8"}

SHAPES = {  # a record, and the row that it becomes
    "openai": ({"messages": [SYSTEM, *TURNS[:2]]}, BRIEF),
    "openai, parts": ({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "2 + 3?"}]},
        model("5")]}, ONE),
    "openai, nulls": ({"messages": [
        user("2 + 3?") | {"tool_calls": None, "name": None}, model("5")],
        "tools": None, "prompt": None}, ONE),
    "openai, a bare list": (TURNS[:2], ONE),
    "openai, turns": ({"messages": TURNS}, OF_TURNS),
    "openai, question last": ({"messages": TURNS[:3]}, ONE),
    "openai, tools": ({"messages": USES, "tools": OF_USES["tools"]}, OF_USES),
    "openai, answer beside": ({"messages": TURNS[:1], "answer": "5"}, ONE),
    "openai, gold beside": ({"messages": [TURNS[0], model("It is 5")], "answer": "5"},
                            ONE | {"messages": [TURNS[0], model("It is 5")]}),
    "messages as text": ({"messages": json.dumps(TURNS)}, OF_TURNS),
    "messages as python": ({"messages": str(TURNS)}, OF_TURNS),
    "sharegpt": ({"system": "Be brief.", "conversations": [
        says("human", "2 + 3?"), says("gpt", "5")]}, BRIEF),
    "sharegpt, turns": ({"conversations": [
        says("human", "2 + 3?"), says("gpt", "5"),
        says("human", "And 4?"), says("gpt", "9")]}, OF_TURNS),
    "sharegpt, greeting": ({"conversations": [
        says("gpt", "Yo"), says("human", "2 + 3?"), says("gpt", "5")]},
        {"question": [model("Yo"), user("2 + 3?")], "answer": "5"}),
    "sharegpt, tools": ({"tools": json.dumps([FUNCTION]), "conversations": [
        says("human", "2 + 3?"), says("function_call", json.dumps(CALL)),
        says("observation", "5"), says("gpt", "It is 5")]}, OF_USES),
    "alpaca": ({"instruction": "Add.", "input": "2 3", "output": "5"},
               {"question": "Add.\n\n2 3", "answer": "5"}),
    "alpaca, capitals": ({"Instruction": "Add.", "Input": "2 3", "Output": "5"},
                         {"question": "Add.\n\n2 3", "answer": "5"}),
    "question of a context": ({"question": "Add.", "context": "2 3", "answer": "5"},
                              {"question": "Add.\n\n2 3", "answer": "5"}),
    "alpaca, null": ({"instruction": "2 + 3?", "input": None, "output": "5"}, ONE),
    "prompt": ({"prompt": "2 + 3?", "completion": " 5"}, ONE),
    "prompt, messages": ({"prompt": TURNS[:3], "completion": TURNS[3:]},
                         {"question": TURNS[:3], "answer": "9"}),
    "prompt, uses": ({"prompt": USES[:1], "completion": USES[1:],
                      "tools": [FUNCTION]}, OF_USES),
    "json as an answer": ({"prompt": "2 + 3?", "completion": '{"role": 1, "value": 5}'},
                          ONE | {"answer": '{"role": 1, "value": 5}'}),
    "math": ({"problem": "2 + 3?", "solution": "It is \\boxed{5}", "level": "1"},
             {"question": "2 + 3?", "answer": "It is \\boxed{5}", "level": "1"}),
    "squad": ({"context": "2 3", "question": "Add.",
               "answers": {"text": ["5", "five"], "answer_start": [0, 0]}},
              {"question": "Add.\n\n2 3", "answer": "5"}),
    "verl": ({"prompt": TURNS[:1], "reward_model": {"ground_truth": "5"}}, ONE),
    "pair": ({"prompt": "2 + 3?", "chosen": "5", "rejected": "6"}, PAIR),
    "pair, messages": ({"prompt": TURNS[:1], "chosen": [model("5")],
                        "rejected": [model("6")]}, PAIR),
    "pair, openai": ({"input": {"messages": [SYSTEM, *TURNS[:1]]},
                      "preferred_output": [model("5")],
                      "non_preferred_output": [model("6")]},
                     PAIR | {"question": BRIEF["question"]}),
    "pair, implicit": ({"chosen": TURNS, "rejected": [*TURNS[:3], model("8")]},
                       LONG_PAIR),
    "pair, repeated": ({"prompt": "2 + 3?", "chosen": TURNS[:2],
                        "rejected": [TURNS[0], model("6")]}, PAIR),
    "pair, text": ({"chosen": "2 + 3? 5", "rejected": "2 + 3? 6", "score": 1},
                   PAIR | {"score": 1}),
    "pair, sharegpt": ({"conversations": [says("human", "2 + 3?")],
                        "chosen": says("gpt", "5"),
                        "rejected": says("gpt", "6")}, PAIR),
    "pair, system": ({"system": "Be brief.", "question": "2 + 3?", "chosen": "5",
                      "rejected": "6"}, PAIR | {"question": BRIEF["question"]}),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_becomes_a_row(shape):
    record, row = SHAPES[shape]
    rows = custom_rows.check([record]).rows
    assert rows == [row]
    assert custom_rows.check(rows).rows == rows  # a row is a shape, too


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_learned_or_compared(shape, families):
    """What is learned, is all that the assistant says, and nothing else."""
    tokenizer = families["qwen2"]
    row = custom_rows.check([SHAPES[shape][0]], tokenizer).rows[0]
    if "chosen" in row:
        source = batches.pairs([row], tokenizer, batch=1, max_tokens=16, seed=0)
        texts = next(source)["completion"][0]
        texts = [chat.decode(tokenizer, [i for i in ids if i]) for ids in texts]
        assert texts == [row["chosen"], row["rejected"]]
        return
    (example,) = custom_rows.examples([row], tokenizer)
    learned = chat.decode(tokenizer, list(itertools.compress(*example)))
    said = [m["content"] for m in row.get("messages") or [model(row["answer"])]
            if m["role"] == "assistant"]  # fmt: skip
    assert [text for text in said if text not in learned] == []
    assert "2 + 3?" not in learned and ("calc" in learned) == ("tools" in row)


# --- further columns ---


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, math.nan, "1", "2"]), min_size=1, max_size=8))
def test_every_row_has_every_column_and_none_is_dropped_for_it(values):
    """None where a row has nothing, so that no row hides a column from a reward."""
    rows = [{"question": f"{i}?", "answer": "a", "n": x} for i, x in enumerate(values)]
    filled = [x if isinstance(x, str) else None for x in values]
    loaded = custom_rows.check(rows)
    assert not loaded.dropped
    if any(filled):
        assert [row["n"] for row in loaded.rows] == filled
    else:
        assert all("n" not in row for row in loaded.rows)


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


def test_rows_of_a_shape_are_measured_and_those_the_template_refuses_counted(families):
    """Every side of a pair, and every answer of a conversation."""
    turns = [*TURNS[:3], model("Milk " * 30)]
    bad = {"messages": [user("Hi"), {"role": "judge", "content": "?"}, model("Yo")]}
    pairs = [PAIR, PAIR | {"rejected": "Milk " * 30}]
    for records, places in (
        ([{"messages": TURNS}, {"messages": turns}, bad], ["row 2", "row 3"]),
        (pairs, ["row 2"]),
    ):
        limits = {"prompt_tokens": 90, "completion_tokens": 20}
        loaded = custom_rows.check(records, families["qwen2"], **limits)
        assert len(loaded.rows) == 1
        assert sorted(sum(loaded.dropped.values(), [])) == places


def test_answers_that_a_template_rewrites_are_learned_one_by_one(families):
    """Qwen3 writes its empty think block only in front of the last answer."""
    rows = custom_rows.check([{"messages": TURNS}]).rows
    examples = custom_rows.examples(rows, families["qwen3"], thinking=False)
    learned = [list(itertools.compress(*example)) for example in examples]
    assert [chat.decode(families["qwen3"], ids).strip() for ids in learned] == [
        "5",
        "9",
    ]


def test_a_question_that_was_left_out_did_not_come_before(tokenizer):
    long = GOOD | {"answer": "2 + 3 = 5, " * 99 + "so\n#### 5"}
    loaded = custom_rows.check([long, GOOD], tokenizer, completion_tokens=64)
    assert loaded.rows == [GOOD]
    with pytest.raises(ValueError, match="prompt_tokens: pass the tokenizer"):
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
        row_files.split_files(tmp_path, "train", "main")
