"""A table in several files is read whole, or not at all."""

import pathlib

import pyarrow
import pyarrow.parquet
import pytest

from helpers.tasks import shards
from helpers.tasks.maths import gsm8k


def paths(*names):
    return [pathlib.Path("data") / name for name in names]


@pytest.mark.parametrize(
    "names",
    [
        ["train.parquet"],
        ["train-00000-of-00001.parquet"],
        ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
        ["train-a.parquet", "train-b.parquet"],
    ],
)
def test_a_whole_set_is_taken(names):
    assert shards.complete(paths(*names)) == paths(*names)


@pytest.mark.parametrize(
    "names, said",
    [
        (["train-00000-of-00003.parquet"], r"1 of the 3 files.*missing: \[1, 2\]"),
        (["train-00001-of-00002.parquet"], r"missing: \[0\]"),
        (
            ["train-00000-of-00001.parquet", "train-00000-of-00002.parquet"],
            "more than one set",
        ),
        (["train-00000-of-00001.parquet", "train-new.parquet"], "more than one set"),
    ],
)
def test_a_part_of_a_set_or_two_sets_are_refused(names, said):
    with pytest.raises(FileNotFoundError, match=said):
        shards.complete(paths(*names))


def test_a_part_of_gsm8k_is_no_gsm8k(tmp_path):
    row = {"question": "What is 2 + 3?", "answer": "<<2+3=5>>5\n#### 5"}
    table = pyarrow.Table.from_pylist([row])
    pyarrow.parquet.write_table(table, tmp_path / "test-00001-of-00002.parquet")
    with pytest.raises(FileNotFoundError, match="1 of the 2 files"):
        gsm8k.load(tmp_path, "test")
    pyarrow.parquet.write_table(table, tmp_path / "test-00000-of-00002.parquet")
    assert len(gsm8k.load(tmp_path, "test")) == 2
