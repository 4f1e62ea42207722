"""One row of a learner's own: its text, or what is wrong with it and what to do."""

import functools
import json
import math
import numbers
import re
import unicodedata
from collections.abc import Mapping

COLUMNS = ("question", "answer")
# Arguments of `rewards.RewardSet` itself.
TAKEN = frozenset({"self", "prompts", "completions"})
LIKE = {  # what other data sets call ours
    "question": ("prompt", "instruction", "problem", "query", "input"),
    "answer": ("completion", "response", "solution", "output"),
}
BESIDE = ("input", "context", "passage")  # of a question: what it is asked about
TALKS = ("messages", "conversations")
LONGEST_LINE = 1_000_000  # bytes
LONGEST_NAME = 40  # letters of a column's name that a report tells
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")  # controls, joiners and blanks of Unicode
MISSING = ("NAType", "NaTType")  # of pandas, which is not imported for it
PYTHON = {"None": "null", "True": "true", "False": "false", "nan": "null"}
# Raised, lowered or in a circle: 5² does not look like 52, which NFKD makes of it.
MARKS = {"<super>": "^", "<sub>": "_", "<fraction>": " ", "<circle>": " "}


class Fault(Exception):
    """What is wrong with one row.

    Args:
      what: in words, with the remedy.
      instead_of: words for other rows of the same table, which need this remedy, too.
    """

    def __init__(self, what: str, instead_of: str = ""):
        super().__init__(what)
        self.instead_of = instead_of


def row_of(record, columns: Mapping[str, str], gold) -> dict:
    """The row of one record, its text stripped.

    Args:
      record: a mapping, or the bytes of a line of JSON.
      columns, gold: as for `custom_rows.check`.
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
            raise _no_text(record, column, theirs)
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
        text = line.decode("utf-8")
        record = json.loads(
            text,
            parse_constant=_no_number,
            parse_float=_finite,
            object_pairs_hook=_named_once,
        )
        _require_unicode(json.dumps(record, ensure_ascii=False))
    except UnicodeError:
        raise Fault("no UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Fault(f"no JSON{_why_not(text, error)}") from None
    except (ValueError, RecursionError):  # too many digits, or too deep
        raise Fault("no JSON") from None
    return record


def is_nothing(value) -> bool:
    """Whether a cell is empty: null, or what pandas puts there."""
    if value is None or type(value).__name__ in MISSING:
        return True
    # NaN alone is unlike itself. math.isnan fails at whole numbers beyond a float.
    return isinstance(value, numbers.Real) and bool(value != value)


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


def _why_not(text, error):
    """What a line of JSON stumbles over, and the remedy; "" if that is not known."""
    before, after = text[: error.pos].rstrip(), text[error.pos :].strip()
    if error.msg == "Extra data":
        if not text.lstrip().startswith("{"):
            return ""  # a line of one object over several
        if after == ",":
            return ": a comma after the object, take it out"
        return ": more after the object, write one object a line"
    if after.startswith("'"):
        return ": single quotes, as Python prints a dict; write json.dumps(row)"
    for word, ours in PYTHON.items():
        if after.startswith(word):
            return f": {word} is Python's word, write {ours}"
    # Python 3.13 stops at the comma, earlier ones at the bracket.
    if re.match(r",\s*[]}]", before[-1:] + after) or re.match(r",\s*[]}]", after):
        return ": a comma before a closing bracket, take it out"
    return ""


def _no_text(record, column, theirs) -> Fault:
    """Says what stands in the place of text, and which column may be meant."""
    value, said = record.get(column), f'no text in the column "{column}"'
    if column in record and is_nothing(value):
        return Fault(f'nothing in the column "{column}"')
    if isinstance(value, bool):
        return Fault(f'true or false in the column "{column}": write it in quotes')
    if isinstance(value, numbers.Number):
        return Fault(
            f'a number in the column "{column}": write it in quotes, such as "5"'
        )
    if column in record:
        return Fault(f"{said}, but a list or an object: write its text")
    if meant := _meant(record, theirs):
        return _renamed(record, said, theirs, meant)
    if talk := next((name for name in TALKS if name in record), None):
        return Fault(f'{said}, but "{talk}": make one question and one answer of each')
    if not record.keys() & {*COLUMNS, *theirs.values()} and column in COLUMNS:
        said += ': name yours in columns={"question": ..., "answer": ...}'
    return Fault(said)


def _meant(record, theirs):
    """{our name: the record's} of the columns that it lacks and has by another name."""
    known = {plain(name): name for name in record if len(name) <= LONGEST_NAME}
    known |= {name: name for name in record}
    return {
        name: known[like]
        for name, own in theirs.items()
        if own not in record
        for like in (name, *LIKE[name])[::-1]  # the first one stays
        if like in known and known[like] != name
    }


def _renamed(record, said, theirs, meant):
    """What to pass as columns=; a question of two columns is joined before."""
    names = {n: c for n, c in theirs.items() if n != c} | meant
    simple = f"{said}: if it has another name, pass columns={json.dumps(names)}"
    asked = names.pop("question", "question")
    for beside in BESIDE:
        about = record.get(beside)
        if beside != asked and isinstance(about, str) and about.strip():
            joined = f'row["{asked}"] + "\\n\\n" + (row["{beside}"] or "")'
            # The second is emptied: a gap in it would be a fault of its own.
            new = f'{{"question": {joined}, "{beside}": ""}}'
            passed = f", columns={json.dumps(names)}" if names else ""
            return Fault(
                f'{said}: join "{asked}" and "{beside}" into one question first, '
                f"rows = [row | {new} for row in rows], then "
                f"custom_rows.check(rows{passed})",
                instead_of=simple,
            )
    return Fault(simple)


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
    raise Fault(f"no JSON: {name} is none of its numbers, write null")


def _finite(text):
    """The number; 1e999 would be infinite, as the word Infinity, which is refused."""
    if math.isinf(number := float(text)):  # is not told: it may be long
        raise Fault(
            "no JSON: a number too large for a float, write null or less digits"
        )
    return number
