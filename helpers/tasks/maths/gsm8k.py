"""Real GSM8K (Cobbe et al. 2021, arXiv 2110.14168, MIT), 7,473 + 1,319 rows.

The rows have the shape of `word_problems.generate`, so the same pipeline, rewards and
evaluation run on both.
"""

import json
import re

from helpers.rewards.answers import extract_strict
from helpers.tasks.row_files import split_files

HUB_NAME = "openai/gsm8k"
FINAL_LINE = re.compile(r"^#### *\S.*\s*\Z", re.MULTILINE)
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
      FileNotFoundError: there is no file of this split in the folder, or not all.
      ValueError: a broken file, or a row without a question or a
        number in the answer's final line; the message names file and row.
    """
    if folder is None:
        return _rows(_from_hub(split), f"{HUB_NAME} {split}")
    paths = split_files(folder, split, "main")
    return [row for path in paths for row in _rows(_from_file(path), path)]


def _from_hub(split):
    import datasets  # takes seconds to import, and only the hub needs it

    try:
        return datasets.load_dataset(HUB_NAME, "main", split=split)
    except ConnectionError as error:
        raise ConnectionError(
            f"{HUB_NAME} cannot be loaded: {error}. Switch the internet on (Kaggle: in "
            "the notebook's settings), or download the dataset elsewhere and pass its "
            "folder: gsm8k.load(folder). The word problems need no network."
        ) from error


def _from_file(path):
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path).to_pylist()
        lines = path.read_text("utf-8-sig").split("\n")  # Windows puts a mark in front
        return [json.loads(line) for line in lines if line.strip()]
    except (ValueError, OSError) as error:  # Arrow's errors are ValueErrors, too
        raise ValueError(
            f"{path} cannot be read: {error}. Is it cut off? Download it again."
        ) from error


def _rows(records, source):
    """The rows of GSM8K's records, or an error that says where one is not."""
    rows = []
    for number, record in enumerate(records, 1):
        if not (
            isinstance(record, dict)
            and isinstance(question := record.get("question"), str)
            and isinstance(answer := record.get("answer"), str)
            and FINAL_LINE.search(answer)
            and extract_strict(answer) is not None
        ):
            raise ValueError(
                f"{source}, row {number} needs the texts question and answer, and a "
                f'final line with a number, such as "#### 72". It is {record!r:.300}.'
            )
        level = answer.count("<<")
        rows.append({"question": question, "answer": answer, "level": level})
    if not rows:
        raise ValueError(f"{source} holds no rows.")
    return rows
