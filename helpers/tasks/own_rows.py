"""Rows of your own: read one by one, and what cannot be used is named, not dropped.

    found = own_rows.read("mine.jsonl", tokenizer, prompt_tokens=256)
    print(found)
    train, test = own_rows.split(found.rows)

A row is a JSON object with a "question" and an "answer", both text. Its further columns
go to the rewards, so every row needs the same ones.
"""

import collections
import contextlib
import itertools
import math
import pathlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from helpers.runtime.ranges import require
from helpers.tasks.row_faults import COLUMNS, LONGEST_LINE, Fault, parsed, row_of
from helpers.text import chat

SUCH = '{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\\n#### 5"}'
SHOWN, LONGEST = 5, 40  # places or columns that a report names, and letters of one


class Found(NamedTuple):
    """The rows that can be used, and what is wrong with the others: {what: places}.

    `str` is a report to read.
    """

    rows: list[dict]
    faults: dict[str, list[str]]

    def __str__(self):
        left_out = sum(map(len, self.faults.values()))
        lines = [f"{len(self.rows):,} rows can be used, {left_out:,} are left out."]
        for what, places in sorted(self.faults.items(), key=lambda x: -len(x[1])):
            more = ", …" if len(places) > SHOWN else ""
            shown = ", ".join(places[:SHOWN])
            lines.append(f"  {len(places):,} × {what}: {shown}{more}")
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
            f"There is no file {path}. Write one JSON object a line, such as\n{SUCH}"
        )
    advice = _advice(next(_lines(path), ("", b""))[1])
    return _found(_lines(path), tokenizer, source=path, advice=advice, **limits)


def check(records: Iterable[Mapping], tokenizer=None, **limits) -> Found:
    """Those of the records that can be trained on, and what is wrong with the others.

    Args:
      records: dicts, such as a table of `datasets`.
      tokenizer: counts the tokens; None: nothing is too long.
      prompt_tokens: most tokens of a question with its chat template.
      completion_tokens: most tokens of an answer, the one that ends it included.
      columns: {our name: theirs}, such as {"question": "prompt"}.
      gold: gives what an answer is graded by, None if there is nothing, such as
        `rewards.extract_strict`; None: answers are not looked into.
    Returns:
      Found; a question that came before is left out, for it could be trained on and
      held out at once, and so is one that differs in capitals and blanks alone.
    Raises:
      ValueError: no row can be used, a limit without a tokenizer, or a name in columns
        that is none of ours.
    """
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
    if tokenizer is None and (prompt_tokens or completion_tokens):
        raise ValueError("Tokens are counted by a tokenizer: pass it, too.")
    if unknown := (columns or {}).keys() - {*COLUMNS}:
        raise ValueError(
            f"columns= names {min(unknown)!r}, and ours are {' and '.join(COLUMNS)}."
        )
    faults: dict[str, list[str]] = collections.defaultdict(list)
    rows: list[tuple[str, dict]] = []
    for place, record in placed:
        try:
            rows.append((place, row_of(record, columns or {}, gold)))
        except Fault as fault:
            faults[str(fault)].append(place)
    rows = _passing(rows, _same_columns(rows), faults)
    if tokenizer is not None:
        limits = prompt_tokens or math.inf, completion_tokens or math.inf
        rows = _passing(rows, _short_enough(rows, tokenizer, *limits), faults)
    rows = _passing(rows, _new_question(), faults)  # last: the first may be no good
    found = Found([row for _, row in rows], dict(faults))
    if not rows:
        raise ValueError(f"No row of {source} can be used.\n{found}{advice}")
    return found


def split(rows: list[dict], share: float = 0.1) -> tuple[list[dict], list[dict]]:
    """(train, test): which of the two a row is in depends on its question alone.

    So rows that are added later move none of the others.

    Args:
      share: about how much is held out, between 0 and 1.
    Raises:
      ValueError: a part would be empty, or share is no such number.
    """
    share = require("share", share, least=0, most=1)
    parts: tuple[list[dict], list[dict]] = [], []
    for row in rows:
        held_out = zlib.crc32(row["question"].encode()) < share * 2**32
        parts[held_out].append(row)
    if not all(parts):
        raise ValueError(
            f"{len(rows)} rows and a share of {share} leave {len(parts[0])} to train on"
            f" and {len(parts[1])} held out. Take more rows, or another share."
        )
    return parts


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


def _advice(line):
    """What to do with a file that does not begin as JSON Lines; "" if it does."""
    with contextlib.suppress(Fault):
        if isinstance(parsed(line), Mapping):
            return ""
    begins = line.lstrip()[:1]
    advice = f"One JSON object a line is asked for (JSON Lines), such as\n{SUCH}"
    if begins == b"[":
        advice += (
            "\nThis file looks like one JSON array: pass what json.load reads of it to "
            "own_rows.check, or write each of its objects on a line with json.dumps."
        )
    elif begins == b"{":
        advice += "\nIf an object takes several lines here: json.dumps(row) takes one."
    elif b"," in line and line.isascii():  # and no packed file
        advice += (
            "\nThis file looks like CSV: own_rows.check(csv.DictReader(file)) reads it."
        )
    return f"\n{advice}"


def _passing(rows, rule, faults):
    """The rows in which a rule finds no fault; the others are noted."""
    kept = []
    for place, row in rows:
        if what := rule(place, row):
            faults[what].append(place)
        else:
            kept.append((place, row))
    return kept


def _new_question():
    seen, alike = set(), set()

    def rule(place, row):
        question = row["question"]
        plain = " ".join(question.casefold().split())
        is_known, is_like = question in seen, plain in alike
        seen.add(question)
        alike.add(plain)
        if is_known:
            return "a question that came before"
        if is_like:
            return "a question that came before, but for capitals and blanks"
        return None

    return rule


def _same_columns(rows):
    """Most rows decide which columns there are."""
    sets = collections.Counter(frozenset(row) for _, row in rows)
    usual = sets.most_common(1)[0][0] if sets else frozenset()

    def rule(place, row):
        if other := usual ^ row.keys():
            return f"other columns than most rows: {_shown(other)}"
        return None

    return rule


def _shown(names):
    """Names that a file chose: some of them, cut short, no control characters."""
    short = sorted(
        n if len(n) <= LONGEST else n[:LONGEST] + "…" for n in map(str, names)
    )
    shown = [n if n.isprintable() else ascii(n) for n in short[:SHOWN]]
    return ", ".join(shown + ["…"] * (len(short) > SHOWN))


def _short_enough(rows, tokenizer, prompt_tokens, completion_tokens):
    """A text may have more after its answer's end."""
    questions, answers = ([row[name] for _, row in rows] for name in COLUMNS)
    prompts = chat.prompts_tokens(tokenizer, questions)
    examples = chat.examples_tokens(tokenizer, questions, answers)
    counted = {
        place: (len(prompt), sum(mask), len(tokens))
        for (place, _), prompt, (tokens, mask) in zip(
            rows, prompts, examples, strict=True
        )
    }
    both = prompt_tokens + completion_tokens

    def rule(place, row):
        asked, answered, together = counted[place]
        if asked > prompt_tokens:
            return f"a prompt of more than {prompt_tokens} tokens"
        if answered > completion_tokens:
            return (
                f"an answer of more than {completion_tokens} tokens, its end included"
            )
        if together > both:
            return f"more than {both} tokens with its chat template"
        return None

    return rule
