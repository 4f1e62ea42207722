"""Real Food-101 (Bossard et al. 2014): 101 foods, 750 + 250 photos of each.

A row has what a row of `food_pictures` has, but the photo as it was stored; decoding is
a step of the data pipeline, `with_image`:

  photo   bytes of the file
  foods   [label], one of LABELS
  level   1
  where   what to call the photo in errors, "train.parquet, row 3"
  id      a hash of the photo
"""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

from helpers import runtime
from helpers.tasks.food.photos import decode, is_picture
from helpers.tasks.row_files import split_files
from helpers.tools import nutrition

HUB_NAME = "ethz/food101"
COLUMNS = ["image", "label"]
# Sorted so, their places are their label numbers on the hub, 0 to 100.
LABELS = tuple(sorted(nutrition.foods(), key=lambda food: food.replace("_", "")))
# A broken file of such a name is an error. Other names need a picture's first bytes.
SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".heic", ".avif"}


def load(folder=None, split="train", *, per_class=20):
    """The first photos of every class, from the Hugging Face hub or from a folder.

    From the hub they are streamed through `datasets` once and cached below the build
    folder; photos there are sorted by class, so most of a split passes by (train is
    about 4 GB, validation 1.3 GB), but only what is asked for is stored.

    Args:
      folder: None for the hub, or a path: it, or `data` in it, holds `train.parquet` or
        the hub's shards `train-00000-of-00008.parquet` (columns image {bytes, path} and
        label), or it holds photos as `train/pizza/any_name.jpg`.
      split: "train" or "validation".
      per_class: how many photos of each class at most.
    Returns:
      A list of rows as described at the top of this file, in the order of the files.
    Raises:
      ConnectionError: the hub cannot be reached and nothing was cached before.
      FileNotFoundError: there is no such folder, or nothing of this split in it.
      PhotoError: a photo that cannot be decoded; all are tried once.
      ValueError: a broken file, a missing column, an unknown label;
        the message names file and row.
    """
    if folder is None:
        records = _from_parquet(_cached(split, per_class))
    elif (Path(folder) / split).is_dir():
        records = _from_files(Path(folder) / split)
    else:
        paths = split_files(folder, split, "data")
        records = (record for path in paths for record in _from_parquet(path))
    rows = [_row(*record) for record in _first_of_each(records, per_class)]
    if not rows:
        raise ValueError(f"The {split} split in {folder} holds no photos.")
    for row in rows:
        with_image(row, size=8)
    return rows


def with_image(row, size):
    """The row with its decoded "image" in place of "photo": a map step of Grain.

    Args:
      row: from `load`.
      size: H = W in pixels; None: as the photo is.
    Returns:
      A new row; "image" is uint8 (H, W, 3).
    Raises:
      PhotoError: the photo cannot be decoded.
    """
    rest = {name: value for name, value in row.items() if name != "photo"}
    return {**rest, "image": decode(row["photo"], size, where=row["where"])}


def _first_of_each(records, per_class):
    """The first `per_class` records of every label; reads no further than needed."""
    taken: Counter = Counter()
    for photo, label, where in records:
        if taken[label] < per_class:
            taken[label] += 1
            yield photo, label, where
        if len(taken) == len(LABELS) and min(taken.values()) == per_class:
            return


def _row(photo, label, where):
    return {
        "photo": photo,
        "foods": [label],
        "level": 1,
        "where": where,
        "id": hashlib.sha256(photo).hexdigest()[:12],
    }


def _from_files(folder):
    """(bytes, label, where) of `pizza/1.jpg` and the like, with any ending or none."""
    for path in sorted(folder.glob("*/[!.]*")):  # a Mac writes `._1.jpg` beside it
        data = path.read_bytes() if path.is_file() else b""
        if path.is_file() and path.suffix.lower() in SUFFIXES or is_picture(data):
            yield data, _known(path.parent.name, path), str(path)


def _from_parquet(path):
    """(bytes, label, where) of every row of a file, a few rows in memory at a time."""
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            # The class names that the file was written with; else the hub's.
            about = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
            features = json.loads(about).get("info", {}).get("features", {})
            names = features.get("label", {}).get("names", LABELS)
            for batch in file.iter_batches(batch_size=64, columns=COLUMNS):
                for record in batch.to_pylist():
                    number += 1
                    yield _parsed(record, names, f"{path}, row {number}")
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{path} is not a readable parquet file ({error}). Download it again."
        ) from error


def _parsed(record, names, where):
    image, label = record.get("image"), record.get("label")
    if not isinstance(image, dict) or not isinstance(image.get("bytes"), bytes):
        raise ValueError(
            f"{where}: the image has no bytes. Write the file's bytes into the parquet "
            "(datasets.Image does so), not its path alone."
        )
    if not isinstance(label, int) or not 0 <= label < len(names):
        raise ValueError(f"{where}: label {label!r} is not from 0 to {len(names) - 1}.")
    return image["bytes"], _known(names[label], where), where


def _known(name, where):
    if name not in LABELS:
        raise ValueError(f"{where}: {name!r} is not a class of Food-101 (LABELS).")
    return name


def _cached(split, per_class):
    """The parquet file of a split's first photos, streamed from the hub if not here."""
    path = runtime.build_folder() / "food101" / f"{split}-{per_class}-each.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        try:
            _write(_first_of_each(_from_hub(split), per_class), partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def _write(records, path):
    """Write records in the hub's schema, a few at a time."""
    import pyarrow
    import pyarrow.parquet

    image = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
    schema = pyarrow.schema({"image": image, "label": pyarrow.int64()})
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for photo, label, where in records:
            image = {"bytes": photo, "path": where}
            row = {"image": image, "label": LABELS.index(label)}
            writer.write(pyarrow.RecordBatch.from_pylist([row], schema=schema))


def _from_hub(split):
    """(bytes, label, where) of the hub's rows, as they arrive."""
    import datasets  # takes seconds to import, and only the hub needs it

    try:
        table = datasets.load_dataset(HUB_NAME, split=split, streaming=True)
        table = table.cast_column("image", datasets.Image(decode=False))
        names = table.features["label"].names
        for number, record in enumerate(table, 1):
            yield _parsed(record, names, f"{HUB_NAME} {split}, row {number}")
    except OSError as error:
        raise ConnectionError(
            f"{HUB_NAME} cannot be loaded: {error}. Switch the internet on (Kaggle: in "
            f"the notebook's settings), or download the dataset elsewhere and pass its "
            f"folder: food101.load(folder). The drawn foods need no network."
        ) from error
