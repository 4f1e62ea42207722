"""Rows in another form than asked: a report says why, and what reads them."""

import ast
import csv
import gzip
import json
import pathlib
import re

import pytest

from helpers.tasks import own_rows

GOOD = {"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}
ALPACA = [
    {"instruction": "Translate.", "input": word, "output": f"<{word}>"}
    for word in ("dog", "", "cat")
]


def numbered(count):
    return [GOOD | {"question": f"What is {i} + 4?"} for i in range(count)]


def refusal(tmp_path, data, **limits):
    """What `read` says of a file of these bytes."""
    path = tmp_path / "mine.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(ValueError) as caught:
        own_rows.read(path, **limits)
    return str(caught.value)


@pytest.mark.parametrize(
    "row, hint",
    [
        (
            {"prompt": "a", "completion": "b"},
            ["question: prompt", "answer: completion"],
        ),
        ({"question": "a", "response": "b"}, ["answer: response"]),
        (
            {"instruction": "a", "input": " ", "output": "b"},
            ["question: instruction", "answer: output"],
        ),
        ({"Question": "a", "ANSWER ": "b"}, ["question: Question", "answer: ANSWER "]),
        ({"\ufeffquestion": "a", "answer": "b"}, ["question: \ufeffquestion"]),
        ({"Prompt": "a", "prompt": "a", "answer": "b"}, ["question: prompt"]),
    ],
)
def test_columns_of_other_names_are_pointed_out_so_that_the_row_can_be_read(row, hint):
    """Given what the hint says, it is."""
    with pytest.raises(ValueError, match="columns=") as caught:
        own_rows.check([row])
    told = re.search(r"columns=({.*})", str(caught.value))[1]
    names = json.loads(told)
    assert [f"{ours}: {theirs}" for ours, theirs in names.items()] == hint
    (found,) = own_rows.check([row], columns=names).rows
    assert found["question"] == "a" and found["answer"] == "b"


@pytest.mark.parametrize(
    "rows",
    [
        ALPACA,
        [ALPACA[1] | {"input": None}, *ALPACA],
        [
            {"prompt": r["instruction"], "context": r["input"], "answer": "a"}
            for r in ALPACA
        ],
        [{"question": "Who?", "passage": r["input"], "output": "a"} for r in ALPACA],
    ],
)
def test_a_question_of_two_columns_is_to_be_joined_and_then_read(rows):
    """The line of code in the report does it, the same for rows without the second."""
    with pytest.raises(ValueError, match='join ".*" and ".*" into one') as caught:
        own_rows.check(rows)
    report = str(caught.value)
    assert "if it has another name" not in report
    code, call = re.search(r"(rows = .*), then (own_rows.*\))[:] row", report).groups()
    names = {"rows": rows, "own_rows": own_rows}
    exec(f"{code}\nfound = {call}", names)
    questions = [row["question"] for row in names["found"].rows]
    first, second = list(rows[0])[:2]
    joined = [f"{row[first]}\n\n{row[second] or ''}".strip() for row in rows]
    assert questions == list(dict.fromkeys(joined)) and len(questions) == 3


def test_conversations_are_pointed_out():
    talk = {"messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(ValueError, match='but "messages": make one question and one'):
        own_rows.check([talk])


OTHER_FORMS = {
    "array": (json.dumps(numbered(3)), "one JSON array.*own_rows.check"),
    "array over lines": (json.dumps(numbered(3), indent=1), "one JSON array"),
    "object over lines": (json.dumps(GOOD, indent=1), r"json.dumps\(row\) takes one"),
    "CSV": ("question,answer\nWhat,5\n", "looks like CSV.*own_rows.check"),
    "text": ("question answer\n", "such as"),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_a_file_in_another_form_is_told_how_it_can_be_read(form, tmp_path):
    text, said = OTHER_FORMS[form]
    assert re.search(f"(?s)no JSON.*JSON Lines.*{said}", refusal(tmp_path, text))


FLAWS = {
    "NaN": ('{"question": "a", "answer": "b", "x": NaN}', "NaN is none .* write null"),
    "infinite": ('{"question": "a", "x": -Infinity}', "-Infinity is .* write null"),
    "too large": ('{"question": "a", "x": 1e999}', "a number too large"),
    "comma after": (json.dumps(GOOD) + ", ", "a comma after the object, take it out"),
    "comma within": ('{"question": "a", "answer": "b" , }', "a comma before a closing"),
    "comma in a list": ('{"question": ["a" ,]}', "a comma before a closing"),
    "printed": (str(GOOD), r"single quotes.*json.dumps\(row\)"),
    "printed value": ("{\"question\": 'a'}", "single quotes"),
    "None": ('{"question": "a", "x": None}', "None is Python's word, write null"),
    "True": ('{"question": "a", "x": [True]}', "True is Python's word, write true"),
    "old Mac": (
        "\r".join(map(json.dumps, numbered(3))),
        "more after the object, write one object a line",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_what_a_line_stumbles_over_is_said_and_no_other_remedy(flaw, tmp_path):
    line, said = FLAWS[flaw]
    report = refusal(tmp_path, f"{line}\n{line}\n")
    assert re.search(f"2 × no JSON: {said}.*: line 1, line 2$", report)
    assert "several lines" not in report


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_in_another_encoding_is_named_and_what_saves_it_reads_it(
    encoding, tmp_path
):
    report = refusal(tmp_path, json.dumps(GOOD).encode(encoding))
    assert f"looks like {encoding.upper()}: save it as UTF-8" in report
    path = str(tmp_path / "mine.json")
    code = re.search(r"(text = .*), then (pathlib.*\))", report).groups()
    exec("\n".join(code), {"path": path, "pathlib": pathlib})
    assert own_rows.read(path).rows == [GOOD]


@pytest.mark.parametrize(
    "data", [b"", b"\n \r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"]
)
def test_an_empty_file_is_called_empty(data, tmp_path):
    report = refusal(tmp_path, data)
    assert "0 rows can be used" in report and "This file is empty, or all" in report


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("head", ["größe", "size"])
def test_what_the_advice_says_reads_a_csv_file(head, mark, encoding, tmp_path):
    path = tmp_path / "mine.json"
    rows = [row | {head: "é"} for row in numbered(3)]
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, [*rows[0]][::-1], delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    report = refusal(tmp_path, path.read_bytes())
    code = re.search(r"CSV: (.*), then (own_rows.*) reads it", report).groups()
    names = {"path": path, "csv": csv, "own_rows": own_rows}
    exec("{}\nfound = {}\nfile.close()".format(*code), names)
    assert names["found"].rows == rows


def test_what_the_advice_says_reads_an_array():
    rows = numbered(3)
    assert own_rows.check(json.loads(json.dumps(rows))).rows == rows


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"question,answer", mtime=0) + b",",
        b"PAR1\x15\x04,\x15",
        b"P\x00K\x00\x03,\x04\x00,",
    ],
    ids=["gzip", "parquet", "zip"],
)
def test_a_packed_file_is_not_taken_for_a_table_or_text(data, tmp_path):
    report = refusal(tmp_path, data)
    assert "JSON Lines" in report and "CSV" not in report and "UTF-16" not in report


def test_rows_of_good_form_that_cannot_be_used_get_no_lesson_on_json(tmp_path):
    report = refusal(tmp_path, json.dumps({"question": "a", "answer": 5}))
    assert "a number in the column" in report and "JSON Lines" not in report


class Table(list):
    """Stands in for a table of `datasets`: iterating gives rows."""

    column_names = ("question", "answer")


class Columns:
    """Stands in for a table of pandas, polars or pyarrow: iterating gives names."""

    columns = ("question", "answer")

    def __init__(self, way):
        setattr(self, way, lambda *kind: numbered(3))

    def __iter__(self):
        return iter(self.columns)


TABLES = {
    "splits": {"train": Table(numbered(3)), "test": Table()},
    "lists": {"train": numbered(3)},
    "numbered splits": {0: numbered(3)},
    "named": {f"row {i}": row for i, row in enumerate(numbered(3))},
    "within": {"version": 1.1, "names": ["Ann"], "data": numbered(3)},
    "frames": {"train": Columns("to_dict")},
    "columns": {name: [row[name] for row in numbered(3)] for name in GOOD},
    "tuples": {name: tuple(row[name] for row in numbered(3)) for name in GOOD},
    "pandas": Columns("to_dict"),
    "polars": Columns("to_dicts"),
    "pyarrow": Columns("to_pylist"),
}


@pytest.mark.parametrize("form", TABLES)
def test_a_table_in_another_form_is_told_how_its_rows_are_got(form):
    """What the report says gives them."""
    with pytest.raises(ValueError, match="records= is no list of dicts") as caught:
        own_rows.check(TABLES[form])
    code = re.search(r"(\[dict.*\]|list\(.*\)|table[.[].*)\.$", str(caught.value))[1]
    rows = eval(code, {"table": TABLES[form]})
    if form == "frames":
        rows = rows.to_dict("records")
    assert own_rows.check(rows).rows == numbered(3)


@pytest.mark.parametrize(
    "record", [GOOD, {"id": 3} | GOOD, GOOD | {"turns": [{"role": "user"}]}]
)
def test_one_record_is_no_list_of_them(record):
    with pytest.raises(
        ValueError, match=r"one record: pass a list of them, \[record\]"
    ):
        own_rows.check(record)


def test_a_path_is_told_what_reads_it(tmp_path):
    for path in (tmp_path / "mine.jsonl", "mine.jsonl", b"mine.jsonl"):
        with pytest.raises(ValueError, match=r"own_rows.read\(path\) reads a file"):
            own_rows.check(path)


def test_records_that_come_one_by_one_are_read():
    assert own_rows.check(iter(numbered(3))).rows == numbered(3)
    assert own_rows.check(ast.literal_eval(str(numbered(3)))).rows == numbered(3)
    with pytest.raises(ValueError, match="No row of the records"):
        own_rows.check({})
