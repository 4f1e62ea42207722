"""Rows of your own: read one by one, and what cannot be used is named, not dropped.

    found = custom_rows.read("mine.jsonl", tokenizer, prompt_tokens=256)
    print(found)
    train, test = custom_rows.split(found.rows)

A row is a JSON object with a "question" and an "answer", both text. Its further columns
go to the rewards, so every row needs the same ones.
"""

import collections
import hashlib
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from helpers.runtime.ranges import require, require_count
from helpers.tasks import row_advice, row_rules
from helpers.tasks.row_faults import COLUMNS, LONGEST_LINE, Fault, plain, row_of
from helpers.tasks.row_rules import SHOWN


class Found(NamedTuple):
    """The rows that can be used, and why others are left out; `str` is a report.

    Attributes:
      rows: those that can be used.
      faults: {what is wrong with the others: their places}.
      sparse: {column: rows that fill it} of columns taken out of all rows, since fewer
        than half of them fill it.
    """

    rows: list[dict]
    faults: dict[str, list[str]]
    sparse: dict[str, int]

    def __str__(self):
        left_out = sum(map(len, self.faults.values()))
        lines = [f"{len(self.rows):,} rows can be used, {left_out:,} are left out."]
        for what, places in sorted(self.faults.items(), key=lambda x: -len(x[1])):
            more = ", …" if len(places) > SHOWN else ""
            shown = ", ".join(places[:SHOWN])
            lines.append(f"  {len(places):,} × {what}: {shown}{more}")
        for name, count in self.sparse.items():
            lines.append(
                f'  The column "{row_rules.shown([name])}" is left out: {count:,} '
                "rows fill it, fewer than half."
            )
        return "\n".join(lines)


def read(path, tokenizer=None, **limits) -> Found:
    """The rows of a JSONL file, one object in each line; empty lines are passed over.

    Args:
      path: the file, UTF-8.
      tokenizer, limits: see `check`.
    Raises:
      FileNotFoundError, IsADirectoryError: there is no such file, or it is a folder.
      ValueError: no row can be used; says why, place by place.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name the file of rows in it.")
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}. Write one JSON object a line, such as\n"
            f"{row_advice.SUCH}"
        )
    advice = row_advice.of_file(line for _, line in _lines(path))
    return _found(_lines(path), tokenizer, source=path, advice=advice, **limits)


def check(records: Iterable[Mapping], tokenizer=None, **limits) -> Found:
    """Those of the records that can be trained on, and what is wrong with the others.

    Args:
      records: dicts, such as a table of `datasets`.
      tokenizer: counts the tokens; None: nothing is too long.
      prompt_tokens: most tokens of a question with its chat template; None: no limit.
      completion_tokens: most tokens of an answer, the one that ends it included.
      columns: {our name: theirs}, such as {"question": "prompt"}.
      gold: gives what an answer is graded by, None if there is nothing, such as
        `rewards.extract_strict`; None: answers are not looked into.
    Returns:
      Found; a question that came before is left out, for it could be trained on and
      held out at once, and so is one that looks like it (`row_faults.plain`). Columns
      are the same in all rows: filled, or empty in each, with one kind of value; one
      that fewer than half of the rows fill is taken out of all.
    Raises:
      ValueError: no row can be used, the records come in another form, a limit is no
        whole number or has no tokenizer, or a name in columns is none of ours.
    """
    if advice := row_advice.of_table(records):
        raise ValueError(f"records= is no list of dicts. {advice}")
    placed = ((f"row {number}", record) for number, record in enumerate(records, 1))
    return _found(placed, tokenizer, source="the records", **limits)


def _found(
    placed,
    tokenizer,
    *,
    source,
    advice="",
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
    columns: Mapping[str, str] | None = None,
    gold: Callable[[str], object] | None = None,
):
    """See `check`; of pairs (place, record)."""
    limits = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in given.items():
        require_count(name, limit)
    if tokenizer is None and given:
        raise ValueError("Tokens are counted by a tokenizer: pass it, too.")
    if unknown := (columns or {}).keys() - {*COLUMNS}:
        raise ValueError(
            f"columns= names {min(unknown)!r}, and ours are {' and '.join(COLUMNS)}."
        )
    rows: list[tuple[str, dict]] = []
    broken: list[tuple[str, Fault]] = []
    for place, record in placed:
        try:
            rows.append((place, row_of(record, columns or {}, gold)))
        except Fault as fault:
            broken.append((place, fault))
    faults = _by_fault(broken)
    rows = row_rules.passing(rows, row_rules.same_columns(rows), faults)
    sparse = row_rules.sparse_columns(rows)
    rows = [
        (place, {name: x for name, x in row.items() if name not in sparse})
        for place, row in rows
    ]
    for rule in (row_rules.filled_columns, row_rules.same_kinds):
        rows = row_rules.passing(rows, rule(rows), faults)
    if tokenizer is not None:
        short = row_rules.short_enough(rows, tokenizer, **limits)
        rows = row_rules.passing(rows, short, faults)
    # Last: the first of two may be no good.
    rows = row_rules.passing(rows, row_rules.new_question(), faults)
    found = Found([row for _, row in rows], dict(faults), sparse)
    if not rows:
        raise ValueError(f"No row of {source} can be used.\n{found}{advice}")
    return found


def _by_fault(broken):
    """{what: places}; what one row shows of the table holds for its like, too."""
    better = {fault.instead_of: str(fault) for _, fault in broken if fault.instead_of}
    faults: dict[str, list[str]] = collections.defaultdict(list)
    for place, fault in broken:
        faults[better.get(str(fault), str(fault))].append(place)
    return faults


def split(rows: list[dict], share: float = 0.1) -> tuple[list[dict], list[dict]]:
    """(train, test): a row's part, and its place in it, come from its question alone.

    Both are ordered by a hash of the question, so the first n rows of a part are a
    sample of all of it, however the file is sorted. Rows that are added later, wherever
    they stand, move none of the others to the other part and leave the order among
    them. Questions that look alike (`row_faults.plain`) are in the same part.

    Args:
      share: about how much is held out, between 0 and 1.
    Raises:
      ValueError: a part would be empty, or share is no such number.
    """
    share = require("share", share, least=0, most=1)
    hashed = sorted(((_hash(row["question"]), row) for row in rows), key=lambda x: x[0])
    parts: tuple[list[dict], list[dict]] = [], []
    for number, row in hashed:
        parts[number < share * 2**64].append(row)
    if not all(parts):
        raise ValueError(
            f"{len(rows)} rows and a share of {share} leave {len(parts[0])} to train on"
            f" and {len(parts[1])} held out. Take more rows, or another share."
        )
    return parts


def _hash(question):
    """A number below 2**64, the same for questions that look alike."""
    digest = hashlib.blake2b(plain(question).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _lines(path):
    """(place, bytes) of each line; of one that is too long, its beginning."""
    with open(path, "rb") as file:
        for number in itertools.count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            begin = line
            while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE + 1)  # is read past, and not kept
            if begin.strip():
                yield f"line {number}", begin.removeprefix(b"\xef\xbb\xbf")


def complete_shards(paths: list) -> list:
    """The paths, if none is missing and all are of one set.

    Args:
      paths: such as `train-00000-of-00003.parquet`; names without a number are let be.
    Raises:
      FileNotFoundError: some are missing, or of another set; names them.
    """
    parts = [re.search(r"-(\d+)-of-(\d+)\.", path.name) for path in paths]
    if not any(parts):
        return paths
    counts = {int(part[2]) for part in parts if part}
    there = sorted(int(part[1]) for part in parts if part)
    (count, *others), folder = sorted(counts), paths[0].parent
    if others or None in parts:
        names = ", ".join(path.name for path in paths)
        raise FileNotFoundError(
            f"{folder} holds files of more than one set: {names}. Their rows would "
            "come twice: leave one set there."
        )
    if there != list(range(count)):
        missing = sorted({*range(count)} - {*there}) or "none, and others are too many"
        raise FileNotFoundError(
            f"{folder} holds {len(there)} of the {count} files of its set; missing: "
            f"{missing}. Fetch them, too: a part of a table is not its sample."
        )
    return paths
