"""Rows of your own: common forms are converted, and what cannot be used is counted.

    loaded = custom_rows.read("mine.jsonl", tokenizer, prompt_tokens=256)
    print(loaded)
    train, test = custom_rows.split(loaded.rows)

A row has a "question" and an "answer", both text. Its further columns go to the
rewards, so every row needs the same ones.
"""

import collections
import functools
import hashlib
import io
import json
import math
import numbers
import pathlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

from helpers.runtime.ranges import require, require_count
from helpers.text import chat

COLUMNS = ("question", "answer")
ALIASES = {  # names that other data sets use, the likeliest first
    "question": ("prompt", "instruction", "problem", "query", "input"),
    "answer": ("completion", "response", "solution", "output"),
}
CONTEXT = ("input", "context", "passage")  # joined to an instruction, as in Alpaca
CHATS = ("messages", "conversations")
ROLES = {"human": "user", "gpt": "assistant"}  # ShareGPT's names
ARGUMENTS = ("self", "prompts", "completions")  # of every reward: no names for columns
EXAMPLE = '{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\\n#### 5"}'
SHOWN = 5  # places that a report names
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")  # controls, joiners and blanks of Unicode
# Raised, lowered or in a circle: 5² does not look like 52, which NFKD makes of it.
MARKS = {"<super>": "^", "<sub>": "_", "<fraction>": " ", "<circle>": " "}


class LoadedRows(NamedTuple):
    """Rows that can be used, and why others were dropped; `str` is a report.

    Attributes:
      rows: those that can be used.
      dropped: {reason: places of the rows}.
      sparse: {column: rows that fill it} of columns that were taken out of all rows,
        since fewer than half of them fill it.
    """

    rows: list[dict]
    dropped: dict[str, list[str]]
    sparse: dict[str, int]

    def __str__(self):
        count = sum(map(len, self.dropped.values()))
        lines = [f"{len(self.rows):,} rows can be used, {count:,} are left out."]
        for reason, places in sorted(self.dropped.items(), key=lambda x: -len(x[1])):
            more = ", …" if len(places) > SHOWN else ""
            shown = ", ".join(places[:SHOWN])
            lines.append(f"  {len(places):,} × {reason}: {shown}{more}")
        for name, count in self.sparse.items():
            lines.append(
                f"  The column {name[:40]!r} is left out: {count:,} rows fill it, "
                "fewer than half."
            )
        return "\n".join(lines)


class Unusable(ValueError):
    """Why one row cannot be used, with the fix."""


def read(path, tokenizer=None, **limits) -> LoadedRows:
    """The rows of a file: JSON, JSON Lines, CSV, TSV, parquet or Arrow, by its ending.

    Args:
      path: the file; or the name of a data set of the hub, whose train split is read.
      tokenizer, limits: see `check`.
    Raises:
      FileNotFoundError, IsADirectoryError: there is no such file, or it is a folder.
      ValueError: no row can be used; says why.
    """
    name, path = str(path), pathlib.Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name the file of rows in it.")
    on_hub = not path.exists() and re.fullmatch(r"[\w-]+/[\w-]+", name)
    if on_hub or path.suffix in (".parquet", ".arrow"):
        import datasets  # takes seconds to import, and only tables need it

        source = (name,) if on_hub else (path.suffix[1:], None, None, name)
        return check(datasets.load_dataset(*source, split="train"), tokenizer, **limits)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. A row in it is {EXAMPLE}")
    placed = _of_csv(path) if path.suffix in (".csv", ".tsv") else _of_json(path)
    return _checked(placed, tokenizer, source=path, **limits)


def check(records, tokenizer=None, **limits) -> LoadedRows:
    """The records that can be trained on, and what is wrong with the others.

    Rows may name their columns as `ALIASES` do, be conversations of one question and
    one answer, have numbers as answers, or an instruction with an input beside it.

    Args:
      records: dicts; or a table of `datasets`, pandas, polars or pyarrow, or a dict of
        columns.
      tokenizer: counts the tokens; None: nothing is too long.
      prompt_tokens: most tokens of a question with its chat template; None: no limit.
      completion_tokens: most tokens of an answer, the one that ends it included.
      columns: {our name: theirs}, such as {"question": "prompt"}.
      gold: gives what an answer is graded by, None if there is nothing, such as
        `rewards.extract_strict`; None: answers are not looked into.
    Returns:
      LoadedRows. A question that looks like an earlier one (`plain`) is dropped: it
      could be trained on and held out at once. A column is filled in all rows or in
      none; one that fewer than half of the rows fill is taken out.
    Raises:
      ValueError: no row can be used, limits come without a tokenizer, or a name in
        columns is not ours.
    """
    placed = ((f"row {i}", record) for i, record in enumerate(_records(records), 1))
    return _checked(placed, tokenizer, source="the records", **limits)


def _of_json(path):
    """(place, record or Unusable) of a JSON Lines file, or of one JSON value."""
    data = path.read_bytes()
    # Bytes that are no text become half characters, which `_text` refuses.
    text = data.decode(json.detect_encoding(data[:64]), errors="surrogateescape")
    lines = [(f"line {n}", x) for n, x in enumerate(text.split("\n"), 1) if x.strip()]
    first = _parsed(lines[0][1]) if lines else None
    if path.suffix == ".json" or not isinstance(first, Mapping):
        whole = _parsed(text)  # an array, or one object on many lines
        if isinstance(whole, list | Mapping):
            return [(f"row {n}", x) for n, x in enumerate(_records(whole), 1)]
    return [(place, _parsed(line)) for place, line in lines]


def _parsed(text):
    """The value of a JSON text, or an Unusable."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except Unusable as error:
        return error
    except (ValueError, RecursionError):
        return Unusable("no JSON")


def _no_number(name):
    raise Unusable(f"no JSON: {name} is not one of its numbers, write null")


def _of_csv(path):
    """(place, record or Unusable) of a table with a header; every cell is text."""
    import pandas  # takes a second to import, and only CSV needs it

    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")  # what Excel writes in the west
    header = text.partition("\n")[0]
    too_long: list[list[str]] = []
    table = pandas.read_csv(
        io.StringIO(text),
        sep=max(",;\t", key=header.count),
        dtype=str,  # automatic types turn 00501 into 501
        keep_default_na=False,
        index_col=False,
        engine="python",
        on_bad_lines=too_long.append,
    )
    placed = [(f"row {n}", x) for n, x in enumerate(table.to_dict("records"), 1)]
    reason = "more values than the header has names: put texts with commas in quotes"
    return placed + [(f"{row[0][:20]!r}…", Unusable(reason)) for row in too_long]


def _records(table):
    """The rows of a table in any of the forms that `check` takes, as an iterable."""
    if isinstance(table, str | bytes | pathlib.Path):
        raise ValueError("check takes records: call custom_rows.read to read a file.")
    for method in ("to_dicts", "to_pylist"):  # polars, pyarrow
        if hasattr(table, method):
            return getattr(table, method)()
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        return table.to_dict("records")
    if not isinstance(table, Mapping):
        return table
    for name in ("train", "data", "rows"):  # a table of splits, or rows with a title
        if not isinstance(table.get(name, ""), str):
            return _records(table[name])
    if any(isinstance(value, str) for value in table.values()):
        return [table]  # one record
    cells = zip(*table.values(), strict=True)
    return [dict(zip(table, row, strict=True)) for row in cells]


def _checked(
    placed,
    tokenizer,
    *,
    source,
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
    columns: Mapping[str, str] | None = None,
    gold: Callable[[str], object] | None = None,
) -> LoadedRows:
    """See `check`; of pairs (place, record)."""
    limits = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    for name, limit in limits.items():
        if limit is not None:
            require_count(name, limit)
            if tokenizer is None:
                raise ValueError(f"{name} is counted by a tokenizer: pass it, too.")
    columns = dict(columns or {})
    if unknown := columns.keys() - {*COLUMNS}:
        raise ValueError(
            f"columns= names {min(unknown)!r}, and ours are {' and '.join(COLUMNS)}."
        )
    dropped: dict[str, list[str]] = collections.defaultdict(list)
    rows: list[tuple[str, dict]] = []
    for place, record in placed:
        try:
            rows.append((place, _row(record, columns, gold)))
        except Unusable as error:
            dropped[str(error)].append(place)
    rows, sparse = _level_columns(rows)
    lengths = _lengths(rows, tokenizer) if tokenizer else [(0, 0, 0)] * len(rows)
    usable, seen = [], set()
    for (place, row), length in zip(rows, lengths, strict=True):
        reason, key = _too_long(length, **limits), plain(row["question"])
        if gap := next((name for name, x in row.items() if _is_empty(x)), None):
            # No reward can pay for it.
            reason = f"nothing in the column {ascii(gap[:40])}: fill it in every row"
        if not reason and key in seen:
            reason = "a question that came before"
        if reason:
            dropped[reason].append(place)
        else:
            seen.add(key)
            usable.append(row)
    loaded = LoadedRows(usable, dict(dropped), sparse)
    if not usable:
        raise ValueError(
            f"No row of {source} can be used.\n{loaded}\nA row looks like {EXAMPLE}; "
            'other names go into columns={"question": ..., "answer": ...}.'
        )
    return loaded


def _row(record, columns, gold) -> dict:
    """The row of one record: our columns as stripped text, and its others.

    Raises:
      Unusable: why there is none.
    """
    if isinstance(record, Unusable):
        raise record
    if not isinstance(record, Mapping) or not all(isinstance(n, str) for n in record):
        raise Unusable("no object with named columns")
    row = dict(record)
    if not columns and not {*COLUMNS} <= row.keys():
        row = _from_chat(row)
    for name in COLUMNS:
        theirs = columns.get(name) or _alias(row, name)
        value = row.pop(theirs, None)
        if name == "question" and theirs in ALIASES["question"] and not columns:
            for beside in CONTEXT:
                if isinstance(text := row.get(beside), str) and beside != theirs:
                    del row[beside]
                    value = f"{value}\n\n{text}" if text.strip() else value
        row[name] = _text(theirs, value)
    row = {f"{n}_" if n in ARGUMENTS else n: value for n, value in row.items()}
    if gold is not None:
        try:
            graded_by = gold(row["answer"])
        except Exception as error:  # a function of the user's may raise anything
            raise Unusable(f"gold= raises {type(error).__name__}") from error
        if graded_by is None:
            raise Unusable("the answer has nothing to be graded by")
    return row


def _alias(row, name) -> str:
    """The record's name for one of our columns: ours, or one of `ALIASES`."""
    if name in row:
        return name
    known = {theirs.strip().casefold(): theirs for theirs in row}
    return next((known[a] for a in (name, *ALIASES[name]) if a in known), name)


def _from_chat(row) -> dict:
    """A conversation of one question and one answer as a row of both."""
    for name in CHATS:
        if not isinstance(row.get(name), list | tuple):
            continue
        turns = [
            (ROLES.get(role := m.get("role") or m.get("from"), role), text)
            for m in row[name]
            if isinstance(text := m.get("content") or m.get("value"), str)
        ]
        roles = [role for role, _ in turns if role != "system"]
        if roles != ["user", "assistant"]:
            raise Unusable(f'"{name}" of several turns: make one row of each')
        *before, (_, answer) = turns
        question = "\n\n".join(text for _, text in before)
        rest = {n: value for n, value in row.items() if n != name}
        return rest | {"question": question, "answer": answer}
    return row


def _text(name, value) -> str:
    """A cell as stripped text; numbers and true or false as JSON writes them."""
    if isinstance(value, numbers.Number) and not _is_empty(value):
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if _is_empty(value):
        raise Unusable(f'no text in the column "{name}"')
    if not isinstance(value, str):
        raise Unusable(f'a list or an object in the column "{name}": write its text')
    value = value.strip()
    try:
        value.encode("utf-8")
    except UnicodeError:  # half of a character pair
        raise Unusable("no UTF-8 text") from None
    if "\0" in value or all(unicodedata.category(c) in UNSEEN for c in value):
        raise Unusable(f"the {name} is empty or cannot be seen")
    return value


def _is_empty(value) -> bool:
    """Whether a cell is empty: null, NaN, or what pandas puts there."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Real) and bool(value != value)


def _level_columns(rows):
    """Gives all rows the same columns, and takes out those that few rows fill.

    A column of texts and numbers becomes one of texts, so that rewards read one kind.

    Returns:
      The rows; and {name: rows that fill it} of the columns that were taken out.
    """
    filled: collections.Counter = collections.Counter()
    texts: set[str] = set()
    for _, row in rows:
        for name, value in row.items():
            filled[name] += not _is_empty(value)
            texts |= {name} if isinstance(value, str) else set()

    def cell(name, value):
        is_number = isinstance(value, numbers.Number) and not _is_empty(value)
        return str(value) if is_number and name in texts else value

    names = [name for name in filled if 2 * filled[name] >= len(rows)]
    names = [*COLUMNS, *(name for name in names if name not in COLUMNS)]
    level = [(at, {n: cell(n, row.get(n)) for n in names}) for at, row in rows]
    return level, {n: count for n, count in filled.items() if n not in names}


def _lengths(rows, tokenizer) -> list[tuple[int, int, int]]:
    """Tokens of each row's prompt, of its answer, and of both with the template."""
    questions, answers = ([row[name] for _, row in rows] for name in COLUMNS)
    prompts = chat.prompts_tokens(tokenizer, questions)
    examples = chat.examples_tokens(tokenizer, questions, answers)
    return [
        (len(prompt), sum(mask), len(tokens))
        for prompt, (tokens, mask) in zip(prompts, examples, strict=True)
    ]


def _too_long(lengths, prompt_tokens, completion_tokens) -> str:
    """Says which limit the lengths of a row are over; "" if none."""
    limits = [math.inf if x is None else x for x in (prompt_tokens, completion_tokens)]
    whats = (
        "a prompt of more than {} tokens",
        "an answer of more than {} tokens, its end included",
        "more than {} tokens with its template",
    )
    for length, limit, what in zip(lengths, [*limits, sum(limits)], whats, strict=True):
        if length > limit:
            return f"{what.format(limit)}: shorten it, or raise the limit"
    return ""


def plain(text: str) -> str:
    """What texts that look alike have in common: a key, not to be shown.

    Capitals, blanks, letters of no width and the several codes of one letter make no
    difference (Unicode's compatibility caseless match, D146).
    """
    if not text.isascii():
        for letter in set(text):
            text = text.replace(letter, _seen(letter))
        for form in ("NFD", "NFKD", "NFKD"):
            text = unicodedata.normalize(form, text).casefold()
    return " ".join(text.casefold().split())


@functools.cache
def _seen(letter):
    if unicodedata.category(letter) == "Cf":
        return ""
    kind = unicodedata.decomposition(letter).partition(" ")[0]
    return MARKS.get(kind, "") + letter


def split(rows: list[dict], share: float = 0.1) -> tuple[list[dict], list[dict]]:
    """(train, test): the split hashes each question, so adding rows moves no old ones.

    Both parts are ordered by that hash, so the first n rows of a part are a sample of
    all of it, however the file is sorted. Questions that look alike (`plain`) are in
    the same part.

    Args:
      share: about how much is held out, between 0 and 1.
    Raises:
      ValueError: a part would be empty, or share is no such number.
    """
    share = require("share", share, least=0, most=1)
    hashed = sorted(((_hash(row["question"]), row) for row in rows), key=lambda x: x[0])
    train = [row for number, row in hashed if number >= share * 2**64]
    test = [row for number, row in hashed if number < share * 2**64]
    if not train or not test:
        raise ValueError(
            f"{len(rows)} rows and a share of {share} leave {len(train)} to train on"
            f" and {len(test)} held out. Take more rows, or another share."
        )
    return train, test


def _hash(question):
    """A number below 2**64, the same for questions that look alike."""
    digest = hashlib.blake2b(plain(question).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def split_files(folder, split: str, inner: str) -> list[pathlib.Path]:
    """The files of one split in a folder, or in its folder `inner`, all of them.

    Returns:
      One file `train.jsonl` or `train.parquet`, or the shards of the hub, such as
      `train-00000-of-00001.parquet`.
    Raises:
      FileNotFoundError: there are none, or not all shards of one set.
    """
    names = (f"{split}.jsonl", f"{split}.parquet", f"{split}-*.parquet")
    folder = pathlib.Path(folder)
    for path in (place / name for place in (folder, folder / inner) for name in names):
        if paths := sorted(path.parent.glob(path.name)):
            break
    else:
        raise FileNotFoundError(
            f"{folder} has no {split} split: neither it nor {inner} in it holds "
            f"{split}.parquet or {split}-00000-of-00001.parquet. Pass the folder that "
            "does, or none to load it from the hub."
        )
    parts = [re.search(r"-(\d+)-of-(\d+)\.", path.name) for path in paths]
    places = sorted((int(part[2]), int(part[1])) for part in parts if part)
    if places and places != [(len(paths), place) for place in range(len(paths))]:
        raise FileNotFoundError(
            f"{folder} holds {[path.name for path in paths]}: files of several sets or "
            "not all of one. Leave one whole set there: a part of a table is not its "
            "sample."
        )
    return paths
