"""One row of a learner's own: its text, or what is wrong with it and what to do."""

import json
import math
import numbers
import unicodedata
from collections.abc import Mapping

COLUMNS = ("question", "answer")
# Arguments of `rewards.RewardSet` itself.
TAKEN = frozenset({"self", "prompts", "completions"})
LIKE = {  # what other data sets call ours
    "question": ("prompt", "instruction", "problem", "query", "input"),
    "answer": ("completion", "response", "solution", "output"),
}
TALKS = ("messages", "conversations")
LONGEST_LINE = 1_000_000  # bytes
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")  # controls, joiners and blanks of Unicode


class Fault(Exception):
    """What is wrong with one row."""


def row_of(record, columns: Mapping[str, str], gold) -> dict:
    """The row of one record, its text stripped.

    Args:
      record: a mapping, or the bytes of a line of JSON.
      columns, gold: as for `own_rows.check`.
    Raises:
      Fault: what is wrong with it.
    """
    if isinstance(record, bytes):
        record = parsed(record)
    if not isinstance(record, Mapping):
        raise Fault("no JSON object with named columns")
    if not all(isinstance(name, str) for name in record):
        raise Fault(
            "a column whose name is no text (of csv.DictReader: more values than the "
            "first line has names, such as after a comma at the row's end)"
        )
    theirs = {name: columns.get(name, name) for name in COLUMNS}
    if taken := TAKEN.intersection(record) - {*theirs.values()}:
        raise Fault(
            f'the column "{min(taken)}" is what a reward calls its own: rename it, or '
            "say in columns= which of ours it is"
        )
    row = {name: x for name, x in record.items() if name not in theirs.values()}
    for name, column in theirs.items():
        if not isinstance(record.get(column), str):
            raise Fault(_no_text(record, column, theirs))
        row[name] = record[column].strip()
        _require_legible(name, row[name])
    if gold is not None and _graded_by(gold, row["answer"]) is None:
        raise Fault("the answer has nothing to be graded by")
    return row


def parsed(line: bytes):
    """What a line of JSON holds.

    Raises:
      Fault: it holds none, or what another reader would take for something else.
    """
    if len(line) > LONGEST_LINE:
        raise Fault(f"a line of more than {LONGEST_LINE:,} bytes")
    try:
        record = json.loads(
            line.decode("utf-8"),
            parse_constant=_no_number,
            parse_float=_finite,
            object_pairs_hook=_named_once,
        )
        _require_unicode(json.dumps(record, ensure_ascii=False))
    except UnicodeError:
        raise Fault("no UTF-8 text") from None
    except (ValueError, RecursionError):
        raise Fault("no JSON") from None
    return record


def _no_text(record, column, theirs):
    """Says what stands in the place of text, and which column may be meant."""
    value, said = record.get(column), f'no text in the column "{column}"'
    if isinstance(value, bool):
        return f'true or false in the column "{column}": write it in quotes'
    if isinstance(value, numbers.Number):
        return f'a number in the column "{column}": write it in quotes, such as "5"'
    if value is not None:
        return f"{said}, but a list or an object"
    meant = {
        name: like
        for name, own in theirs.items()
        if own not in record
        for like in LIKE[name][::-1]  # the first one stays
        if like in record
    }
    if column not in record and meant:
        named = json.dumps({n: c for n, c in theirs.items() if n != c} | meant)
        return f"{said}: if it has another name, pass columns={named}"
    if talk := next((name for name in TALKS if name in record), None):
        return f'{said}, but "{talk}": make one question and one answer of each'
    return said


def _require_legible(name, text):
    if not text:
        raise Fault(f"the {name} is empty")
    _require_unicode(text)
    if "\0" in text:
        raise Fault(f"the {name} has a NUL character in it")
    if all(unicodedata.category(letter) in UNSEEN for letter in text):
        raise Fault(f"the {name} has no letter that can be seen")


def _graded_by(gold, answer):
    try:
        return gold(answer)
    except Exception as error:  # a function of the learner's may raise anything
        raise Fault(f"gold= raises {type(error).__name__} on the answer") from error


def _require_unicode(text):
    try:
        text.encode("utf-8")
    except UnicodeError:  # half of a character pair
        raise Fault("no UTF-8 text") from None


def _named_once(pairs):
    """The object of some pairs; JSON allows a name twice, and Python takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):  # the name is not told: it may be long, or no text
        raise Fault("a name stands twice in one object")
    return found


def _no_number(name):
    raise ValueError(f"{name} is not JSON")


def _finite(text):
    """The number; 1e999 would be infinite, as the word Infinity, which is refused."""
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is too large")
    return number
