"""Real GSM8K (Cobbe et al. 2021, arXiv 2110.14168, MIT), 7,473 + 1,319 rows.

The rows have the shape of `word_problems.generate`, so the same pipeline, rewards and
evaluation run on both.
"""

import json
import re
from pathlib import Path

from helpers.rewards.answers import extract_strict
from helpers.tasks.custom_rows import complete_shards

HUB_NAME = "openai/gsm8k"
COLUMNS = ("question", "answer")
SPLITS = ("train", "test")


def load(folder=None, split="train"):
    """The rows of one split, from the Hugging Face hub or from a folder.

    Args:
      folder: None for the hub (through `datasets`, cached after the first time), or a
        path that holds `train.jsonl`, `train.parquet` or the hub's shards
        `train-00000-of-00001.parquet`, or has them in `main`; the same with "test".
      split: "train" or "test".
    Returns:
      A list of rows {"question", "answer", "level"}. The answer's last line is
      "#### 72"; level is how many `<<48/2=24>>` annotations the answer has, 0 where
      its author wrote none.
    Raises:
      ConnectionError: the hub cannot be reached and the dataset is not cached.
      FileNotFoundError: there is no such folder, or no file of this split in it.
      ValueError: an unknown split, a broken line or file, a missing column, or an
        answer without a number in its final line; the message names file and row.
    """
    if split not in SPLITS:
        raise ValueError(f'split is "train" or "test", not {split!r}.')
    if folder is None:
        return [_row(record, where) for record, where in _from_hub(split)]
    rows = []
    for path in _files(Path(folder), split):
        read = _from_jsonl if path.suffix == ".jsonl" else _from_parquet
        rows += [_row(record, where) for record, where in read(path)]
    if not rows:
        raise ValueError(f"The {split} files in {folder} hold no rows.")
    return rows


def _files(folder, split):
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the folder that holds {split}.jsonl or "
            f"{split}.parquet, or none to load {HUB_NAME} from the hub."
        )
    for place in (folder, folder / "main"):
        for name in (f"{split}.jsonl", f"{split}.parquet", f"{split}-*.parquet"):
            if paths := sorted(place.glob(name)):
                return complete_shards(paths)
    raise FileNotFoundError(
        f"The folder {folder} has no {split} split. It, or main in it, should hold "
        f"{split}.jsonl, {split}.parquet or {split}-00000-of-00001.parquet."
    )


def _from_hub(split):
    import datasets  # takes seconds to import, and only the hub needs it

    try:
        table = datasets.load_dataset(HUB_NAME, "main", split=split)
    except ConnectionError as error:
        raise ConnectionError(
            f"{HUB_NAME} cannot be loaded: {error}. Switch the internet on (Kaggle: in "
            f"the notebook's settings), or download the dataset elsewhere and pass its "
            f"folder: gsm8k.load(folder). The word problems need no network."
        ) from error
    return _numbered(table, f"{HUB_NAME} {split}")


def _from_parquet(path):
    import pyarrow
    import pyarrow.parquet

    try:
        records = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{path} is not a readable parquet file ({error}). Download it again."
        ) from error
    return _numbered(records, path)


def _from_jsonl(path):
    with open(path, encoding="utf-8-sig") as lines:  # Windows may put a mark in front
        try:
            for number, line in enumerate(lines, 1):
                where = f"{path}, line {number}"
                if line.strip():
                    yield _parse(line, where), where
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not UTF-8 text ({error}). Download it again."
            ) from error


def _parse(line, where):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where} is not JSON: {error}. Is the file cut off? Download it again."
        ) from error


def _numbered(records, source):
    return ((record, f"{source}, row {i}") for i, record in enumerate(records, 1))


def _row(record, where):
    """The row of one record, or an error that says where it is not GSM8K."""
    columns = sorted(record) if isinstance(record, dict) else record
    if not isinstance(record, dict) or not set(COLUMNS) <= set(record):
        raise ValueError(f"{where}: needs columns {COLUMNS}, has {columns!r}.")
    question, answer = (record[column] for column in COLUMNS)
    if not isinstance(question, str) or not isinstance(answer, str):
        raise ValueError(f"{where}: question and answer should both be text.")
    if not re.search(r"^#### *\S.*\s*\Z", answer, re.MULTILINE):
        raise ValueError(f'{where}: the answer has no final line like "#### 72".')
    if extract_strict(answer) is None:
        final = answer.strip().splitlines()[-1]
        raise ValueError(
            f"{where}: the final line {final!r} holds no number that can be graded. "
            'Write it like "#### 72", or leave the row out.'
        )
    return {"question": question, "answer": answer, "level": answer.count("<<")}
