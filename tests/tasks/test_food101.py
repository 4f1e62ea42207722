"""Food-101 from parquet, folders and a stand-in for the hub; the broken is named."""

import io

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from helpers.tasks.food.food101 import LABELS, load


def photo(number, kind="JPEG"):
    """A flat photo whose colour tells its number."""
    file = io.BytesIO()
    Image.new("RGB", (24, 16), (number * 7 % 256, number * 31 % 256, 90)).save(
        file, kind
    )
    return file.getvalue()


def record(number, label):
    return {"image": {"bytes": photo(number), "path": f"{number}.jpg"}, "label": label}


def write(path, records, names=None):
    """A parquet file as `datasets` writes it if names are given, else a bare one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if names is None:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
        return
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    )
    datasets.Dataset.from_list(records, features=features).to_parquet(path)


def contents(rows):
    return [(row["photo"], row["foods"]) for row in rows]


RECORDS = [record(i, label) for i, label in enumerate((31, 76, 31, 0, 31, 76))]
WANTED = [(photo(i), [LABELS[r["label"]]]) for i, r in enumerate(RECORDS)]


@pytest.mark.parametrize(
    "name, names",
    [
        ("train.parquet", None),
        ("train-00000-of-00001.parquet", LABELS),
        ("data/train-00000-of-00001.parquet", LABELS),
    ],
)
def test_every_layout_gives_the_same_rows(tmp_path, name, names):
    write(tmp_path / name, RECORDS, names)
    rows = load(str(tmp_path))
    assert contents(rows) == WANTED
    assert all(row["level"] == 1 and name in row["where"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_the_first_of_each_class_are_taken_and_the_rest_is_not_read(tmp_path):
    write(tmp_path / "train-00000-of-00002.parquet", RECORDS)
    write(tmp_path / "train-00001-of-00002.parquet", RECORDS[::-1])
    assert contents(load(tmp_path, per_class=1)) == [WANTED[0], WANTED[1], WANTED[3]]
    assert contents(load(tmp_path, per_class=2)) == [*WANTED[:4], WANTED[5], WANTED[3]]
    every = [record(i, i) for i in range(101)]
    whole = tmp_path / "whole"
    write(whole / "validation-00000-of-00002.parquet", every)
    (whole / "validation-00001-of-00002.parquet").write_bytes(b"never opened")
    assert len(load(whole, "validation", per_class=1)) == 101
    with pytest.raises(ValueError, match="00001-of-00002.parquet is not a readable"):
        load(whole, "validation", per_class=2)


def test_a_folder_of_photos(tmp_path):
    for number, place in enumerate(("pizza/b.jpg", "pizza/a.PNG", "donuts/1.jpeg")):
        path = tmp_path / "validation" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo(number))
    (tmp_path / "validation" / "pizza" / "notes.txt").write_text("not a photo")
    (tmp_path / "validation" / "pizza" / "._a.PNG").write_text("a Mac's")
    for number, name in enumerate(("c", "d.jfif", "e.dat"), 3):
        (tmp_path / "validation" / "pizza" / name).write_bytes(photo(number, "WEBP"))
    wanted = [(photo(2), ["donuts"]), (photo(1), ["pizza"]), (photo(0), ["pizza"])]
    wanted += [(photo(number, "WEBP"), ["pizza"]) for number in (3, 4, 5)]
    assert contents(load(tmp_path, "validation")) == wanted
    (tmp_path / "validation" / "soup").mkdir()
    (tmp_path / "validation" / "soup" / "1.jpg").write_bytes(photo(3))
    with pytest.raises(ValueError, match="'soup' is not a class of Food-101"):
        load(tmp_path, "validation")


# --- what is refused ---


def test_a_missing_folder_or_split_says_what_to_pass(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere has no train split"):
        load(tmp_path / "nowhere")
    write(tmp_path / "train.parquet", RECORDS)
    with pytest.raises(FileNotFoundError, match="no validation split"):
        load(tmp_path, "validation")


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({**RECORDS[0], "label": 101}, "row 2: label 101 is not from 0 to 100"),
        ({**RECORDS[0], "label": None}, "row 2: label None"),
        (
            {"image": {"bytes": None, "path": "/etc/passwd"}, "label": 1},
            "row 2: .*no bytes",
        ),
        ({"image": {"bytes": b"", "path": "x"}, "label": 1}, "row 2: not a picture"),
        (
            {"image": {"bytes": photo(0)[:300], "path": "x"}, "label": 1},
            "row 2: broken or cut off",
        ),
    ],
)
def test_a_broken_row_is_named_before_work_begins(tmp_path, broken, complaint):
    write(tmp_path / "train.parquet", [RECORDS[0], broken])
    with pytest.raises(ValueError, match="train.parquet, " + complaint):
        load(tmp_path)


# --- the hub ---


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The hub as `datasets` streams it, from a local file; lists the calls."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))
    write(tmp_path / "hub.parquet", RECORDS, LABELS)
    calls, real = [], datasets.load_dataset

    def load_dataset(name, **options):
        calls.append((name, options))
        files = {options["split"]: str(tmp_path / "hub.parquet")}
        return real("parquet", data_files=files, **options)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


def test_the_hub_is_streamed_once_and_cached(hub, tmp_path):
    rows = load(per_class=2)
    assert contents(rows) == [*WANTED[:4], WANTED[5]]
    assert hub == [("ethz/food101", {"split": "train", "streaming": True})]
    assert load(per_class=2) == rows and len(hub) == 1
    assert contents(load(split="validation", per_class=1)) == contents(
        load(per_class=1)
    )
    assert len(hub) == 3


def test_a_stream_that_breaks_leaves_nothing_half_written(hub, tmp_path, monkeypatch):
    whole = datasets.load_dataset

    def breaks(name, **options):
        table = whole(name, **options)
        table = table.cast_column("image", datasets.Image(decode=False))

        def cut(row, index):
            if index == 3:
                raise ConnectionError("Server disconnected")
            return row

        return table.map(cut, with_indices=True, features=table.features)

    monkeypatch.setattr(datasets, "load_dataset", breaks)
    with pytest.raises(ConnectionError, match="disconnected.*load.folder.*drawn foods"):
        load(per_class=2)
    assert not list((tmp_path / "build" / "food101").iterdir())
    monkeypatch.setattr(datasets, "load_dataset", whole)
    assert len(load(per_class=2)) == 5
