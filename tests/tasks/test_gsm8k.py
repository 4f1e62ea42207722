"""GSM8K from folders in every layout, the errors of broken ones, and the real rows."""

import json
import os
import re
import sys
import types
from fractions import Fraction
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from helpers.rewards.functions import gold_number
from helpers.tasks.maths import gsm8k, word_problems

RECORDS = [
    {
        "question": "Natalia sold 48 clips, then half as many.\u2028How many in all?",
        "answer": "She sold 48/2 = <<48/2=24>>24.\n48+24 = <<48+24=72>>72.\n#### 72",
    },
    {
        "question": "What is 1,000 + 0 at the café?",
        "answer": "Let x be it.\n#### 1,000",
    },
]
REAL = Path(
    os.environ.get("COURSE_GSM8K")
    or Path(__file__).parents[3] / "shared" / "data" / "gsm8k"
)


def write_jsonl(path, records=RECORDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_parquet(path, records=RECORDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("train.jsonl", write_jsonl),
        ("train.parquet", write_parquet),
        ("train-00000-of-00001.parquet", write_parquet),
        ("main/train-00000-of-00001.parquet", write_parquet),
    ],
)
def test_every_layout_gives_the_same_rows(tmp_path, name, write):
    write(tmp_path / name)
    rows = gsm8k.load(str(tmp_path))
    assert rows == [{**RECORDS[0], "level": 2}, {**RECORDS[1], "level": 0}]


def test_shards_are_read_in_order_and_splits_are_not_mixed(tmp_path):
    write_parquet(tmp_path / "main" / "train-00001-of-00002.parquet", RECORDS[1:])
    write_parquet(tmp_path / "main" / "train-00000-of-00002.parquet", RECORDS[:1])
    write_jsonl(tmp_path / "test.jsonl", RECORDS[1:])
    assert [row["level"] for row in gsm8k.load(tmp_path)] == [2, 0]
    assert [row["level"] for row in gsm8k.load(tmp_path, split="test")] == [0]


def test_what_loads_can_be_graded_and_demonstrated(tmp_path):
    """Whatever stands around the number of the final line, and after it."""
    endings = ("#### 2", "#### 2\n\n", "#### $2", "#### 2 \t", "####2\r\n")
    records = [{"question": "Q?", "answer": f"1+1={e}\n{e}"} for e in endings]
    write_jsonl(tmp_path / "train.jsonl", records)
    rows = gsm8k.load(tmp_path)
    assert [gold_number(row["answer"]) for row in rows] == [2] * len(endings)
    shown = word_problems.demonstrations(rows, answer_only=1, seed=0)
    assert [row["response"] for row in shown] == [e.strip() for e in endings]


def test_a_missing_split_says_what_to_pass(tmp_path):
    write_jsonl(tmp_path / "train.jsonl")
    with pytest.raises(FileNotFoundError, match="no test split.*test.parquet"):
        gsm8k.load(tmp_path, "test")


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "Q?", "response": "#### 1"},
        ["Q?", "#### 1"],
        {"question": "Q?", "answer": 72},
        {"question": "Q?", "answer": "#### 72\nor so"},
        {"question": "Q?", "answer": "#### 1 or 2"},
    ],
)
def test_a_record_that_is_not_gsm8k_is_named_by_its_number(tmp_path, record):
    write_jsonl(tmp_path / "train.jsonl", [RECORDS[0], record])
    with pytest.raises(ValueError, match='train.jsonl, row 2 needs .*"#### 72"'):
        gsm8k.load(tmp_path)


@pytest.mark.parametrize(
    "name, content",
    [
        ("train.parquet", b"PAR1 half a download"),
        ("train.jsonl", b"\x80\x81\x82"),
        ("train.jsonl", b'{"question": "cut o'),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read.*Download it again"):
        gsm8k.load(tmp_path)


def test_no_network_says_how_to_pass_a_folder(monkeypatch):
    def load_dataset(*args, **options):
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")

    monkeypatch.setitem(
        sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset)
    )
    with pytest.raises(ConnectionError, match=r"Couldn't reach.*gsm8k.load\(folder\)"):
        gsm8k.load()


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real GSM8K in {REAL}")
def test_all_the_real_rows_load_and_their_annotations_are_counted():
    train, test = gsm8k.load(REAL, "train"), gsm8k.load(REAL, "test")
    assert (len(train), len(test)) == (7473, 1319)
    rows = train + test
    counted = [len(re.findall(r"<<[^<>]+>>", row["answer"])) for row in rows]
    assert [row["level"] for row in rows] == counted
    assert all(re.search(r"\n#### -?[\d,.]+$", row["answer"]) for row in rows)
    for row in rows:
        (number,) = re.findall(r"#### (.*)", row["answer"].replace(",", ""))
        assert gold_number(row["answer"]) == Fraction(number), row
    written = (REAL / "test.jsonl").read_text(encoding="utf-8").split("\n")[0]
    assert json.loads(written).items() <= test[0].items()
