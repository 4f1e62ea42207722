"""Rows of your own: common forms are converted, and what cannot be used is counted.

    loaded = custom_rows.read("mine.jsonl", tokenizer, prompt_tokens=256)
    print(loaded)
    train, test = custom_rows.split(loaded.rows)
    examples = custom_rows.examples(train, tokenizer)  # for SFT

A row has a "question" and an "answer"; of preferences, a "chosen" and a "rejected" one
instead (`helpers.tasks.row_shapes`). Its further columns go to the rewards, and every
row has all of them: None where there was nothing.
"""

import collections
import functools
import hashlib
import json
import math
import numbers
import os
import pathlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

from jinja2 import TemplateError

from helpers.runtime.ranges import require, require_count
from helpers.tasks import row_files
from helpers.tasks.row_shapes import NAMES, SIDES, Unusable, as_text, is_empty, row_of
from helpers.text import chat

COLUMNS = ("question", "answer")
OURS = (*COLUMNS, *SIDES, "messages", "system", "tools")
EXAMPLE = '{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\\n#### 5"}'
SHOWN = 5  # places that a report names
REASONS = 8  # reasons that a report names
# Raised, lowered or in a circle: 5² does not look like 52, which NFKD makes of it.
MARKS = {"<super>": "^", "<sub>": "_", "<fraction>": " ", "<circle>": " "}


class LoadedRows(NamedTuple):
    """Rows that can be used, and why others were dropped; `str` is a report.

    Attributes:
      rows: those that can be used.
      dropped: {reason: places of the rows}.
    """

    rows: list[dict]
    dropped: dict[str, list[str]]

    def __str__(self):
        count = sum(map(len, self.dropped.values()))
        lines = [f"{len(self.rows):,} rows can be used, {count:,} are left out."]
        reasons = sorted(self.dropped.items(), key=lambda x: -len(x[1]))
        for reason, places in reasons[:REASONS]:
            more = ", …" if len(places) > SHOWN else ""
            shown = ", ".join(places[:SHOWN])
            lines.append(f"  {len(places):,} × {reason}: {shown}{more}")
        return "\n".join(lines)


def read(source, tokenizer=None, **limits) -> LoadedRows:
    """The rows of a file, of a data set of the hub, or of a table.

    A file holds JSON, JSON Lines, CSV, TSV, parquet or Arrow, and may be compressed by
    gzip.

    Args:
      source: the file, "~" being your home; "owner/name" on the hub, or
        "owner/name/configuration"; or a table as in `check`.
      tokenizer, limits: see `check`.
    Raises:
      FileNotFoundError, IsADirectoryError: there is no such file, or it is a folder.
      ValueError: no row can be used; says why.
    """
    if not isinstance(source, str | os.PathLike):
        return check(source, tokenizer, **limits)
    path = pathlib.Path(source).expanduser()
    on_hub = re.fullmatch(r"[\w.-]+(/[\w.-]+){1,2}", str(source))
    if path.exists():
        placed = row_files.of_file(path)
    elif on_hub and path.suffix not in row_files.ENDINGS:
        placed = row_files.of_hub(str(source))
    else:
        raise FileNotFoundError(f"There is no file {path}. A row in it is {EXAMPLE}")
    return _checked(placed, tokenizer, source=source, **limits)


def check(records, tokenizer=None, **limits) -> LoadedRows:
    """The records that can be trained on, and what is wrong with the others.

    Args:
      records: dicts; or a table of `datasets`, pandas, polars or pyarrow, or a dict of
        columns. Their shapes are those of `helpers.tasks.row_shapes`.
      tokenizer: counts the tokens; None: nothing is too long.
      prompt_tokens: most tokens of a question with its chat template; None: no limit.
      completion_tokens: most tokens of an answer, the one that ends it included.
      columns: {our name: theirs}, such as {"question": "prompt"}; {"answer": None} for
        rewards that need no answer.
      gold: gives what an answer is graded by, None if there is nothing, such as
        `rewards.extract_strict`; None: answers are not looked into.
    Returns:
      LoadedRows. A question that looks like an earlier one (`plain`) is dropped: it
      would be trained on twice. Preferences may differ in their answers only.
    Raises:
      ValueError: no row can be used, limits come without a tokenizer, or a name in
        columns is not ours.
    """
    records = enumerate(row_files.of_table(records), 1)
    placed = [(f"row {i}", record) for i, record in records]
    return _checked(placed, tokenizer, source="the records", **limits)


def examples(rows, tokenizer, thinking=None):
    """SFT examples of rows: each answer in a conversation is learned.

    Args:
      rows: from `check` or `read`, with answers.
      tokenizer: from `chat.load_tokenizer`.
      thinking: see `chat.prompt_tokens`.
    Returns:
      list of (tokens, loss_mask), see `chat.conversation_tokens`: one for each row, or
      one for each answer of a conversation whose template rewrites earlier answers.
    """
    return [x for each in _examples(rows, tokenizer, thinking) for x in each]


def _examples(rows, tokenizer, thinking=None, side="answer"):
    """The list of examples of each row."""
    single = [row for row in rows if not row.get("messages")]
    questions, answers = ([row[name] for row in single] for name in ("question", side))
    pairs = iter(chat.examples_tokens(tokenizer, questions, answers, thinking))
    return [
        _conversation(tokenizer, row, thinking)
        if row.get("messages")
        else [next(pairs)]
        for row in rows
    ]


def _conversation(tokenizer, row, thinking):
    messages, switches = row["messages"], (thinking, row.get("tools"))
    try:
        return [chat.conversation_tokens(tokenizer, messages, *switches)]
    except ValueError:  # perhaps since the template rewrites earlier answers
        weights = [m["role"] == "assistant" and m.get("weight", 1) for m in messages]
    return [
        chat.conversation_tokens(tokenizer, messages[:end], *switches, last_only=True)
        for end, weight in enumerate(weights, 1)
        if weight
    ]


def _checked(
    placed,
    tokenizer,
    *,
    source,
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
    columns: Mapping[str, str | None] | None = None,
    gold: Callable[[str], object] | None = None,
) -> LoadedRows:
    """See `check`; of pairs (place, record)."""
    limits = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in limits.items():
        require_count(name, limit)
    if limits and tokenizer is None:
        raise ValueError(f"{', '.join(limits)}: pass the tokenizer that counts them.")
    columns = dict(columns or {})
    if unknown := columns.keys() - {*OURS}:
        raise ValueError(
            f"columns= names {min(unknown)!r}, and ours are question and answer; "
            f"others are {', '.join(OURS[2:])}."
        )
    dropped: dict[str, list[str]] = collections.defaultdict(list)
    rows: list[tuple[str, dict]] = []
    for place, record in placed:
        try:
            row = row_of(record, columns)
            if rows and ("chosen" in row) != ("chosen" in rows[0][1]):
                raise Unusable("pairs and single answers: take a file for each")
            if gold is not None and "answer" in row:
                _require_gold(gold, row["answer"])
            rows.append((place, row))
        except Unusable as error:
            dropped[str(error)].append(place)
    faults = [""] * len(rows)
    if tokenizer and rows:
        faults = _faults([row for _, row in rows], tokenizer, **limits)
    usable, seen = [], set()
    for (place, row), reason in zip(rows, faults, strict=True):
        key = (plain(as_text(row["question"])), *map(row.get, SIDES))
        if not reason and key in seen:
            reason = "a question that came before"
        if reason:
            dropped[reason].append(place)
        else:
            seen.add(key)
            usable.append(row)
    loaded = LoadedRows(_with_equal_columns(usable), dict(dropped))
    if not usable:
        raise ValueError(
            f"No row of {source} can be used.\n{loaded}\n{_advice(placed, dropped)}"
        )
    return loaded


def _require_gold(gold, answer):
    try:
        graded_by = gold(answer)
    except Exception as error:  # a function of the user's may raise anything
        raise Unusable(f"gold= raises {type(error).__name__}") from error
    if graded_by is None:
        raise Unusable("the answer has nothing to be graded by")


def _advice(placed, dropped) -> str:
    """What to do about a table of which no row can be used."""
    first = next((x for _, x in placed if isinstance(x, Mapping)), {})
    ours = [name for name in COLUMNS if f'no text in the column "{name}"' in dropped]
    question_names = () if "question" in ours else ("question", *NAMES["question"])
    texts = [n for n, x in first.items() if isinstance(x, str | numbers.Number)]
    texts = [name for name in texts if name.casefold() not in question_names]
    if not ours or ("question" in ours and not texts):
        return f"A row looks like {EXAMPLE}"
    ours = ours[:1] if question_names else [*COLUMNS]
    names = json.dumps(dict(zip(ours, [*texts, None, None], strict=False)))
    return (
        f"The first row has the columns {', '.join(map(repr, first))}. Name yours, as "
        f"in columns={names.replace('null', 'None')}. None as the answer is for "
        "rewards that need none."
    )


def _with_equal_columns(rows):
    """The rows with the same columns in each, None where a row has nothing.

    A column of texts and numbers becomes one of texts, so that rewards read one kind.
    """
    cells = [cell for row in rows for cell in row.items() if not is_empty(cell[1])]
    names = dict.fromkeys(name for name, _ in cells)
    texts = {name for name, value in cells if isinstance(value, str)}

    def cell(name, value):
        if is_empty(value):
            return None
        is_number = isinstance(value, numbers.Number)
        return str(value) if is_number and name in texts else value

    return [{name: cell(name, row.get(name)) for name in names} for row in rows]


def _faults(rows, tokenizer, **limits) -> list[str]:
    """Why each row is too long, or cannot be written by the template; "" if it can."""
    try:
        return [_fault(*lengths, **limits) for lengths in _lengths(rows, tokenizer)]
    except (ValueError, TemplateError) as error:
        if len(rows) == 1:
            return [str(error)]
    middle = len(rows) // 2  # halves find the row, and the others are encoded fast
    halves = rows[:middle], rows[middle:]
    return [x for half in halves for x in _faults(half, tokenizer, **limits)]


def _lengths(rows, tokenizer):
    """(tokens of a row's prompt, of its last answer, of all it has), of each row."""
    prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    lengths = [(len(prompt), 0, len(prompt)) for prompt in prompts]
    for side in [name for name in ("answer", *SIDES) if name in rows[0]]:
        for i, (*_, example) in enumerate(_examples(rows, tokenizer, side=side)):
            (tokens, mask), (prompt, answer, whole) = example, lengths[i]
            answer = max(answer, sum(mask[prompt:]))
            lengths[i] = prompt, answer, max(whole, len(tokens))
    return lengths


def _fault(
    prompt, answer, whole, prompt_tokens=math.inf, completion_tokens=math.inf
) -> str:
    """Says which limit the lengths of a row are over; "" if none."""
    both = prompt_tokens + completion_tokens
    if prompt > prompt_tokens:
        fault = f"a prompt of more than {prompt_tokens} tokens"
    elif answer > completion_tokens:
        fault = f"an answer of more than {completion_tokens} tokens, its end included"
    else:
        fault = f"more than {both} tokens with its template" if whole > both else ""
    return fault and f"{fault}: shorten it, or raise the limit"


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
    hashed = [(_hash(as_text(row["question"])), row) for row in rows]
    hashed.sort(key=lambda pair: pair[0])
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
