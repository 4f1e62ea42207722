"""JSON from a model, read strictly: one value, small, without surprises.

`json.loads` lets pass what a checker should not: NaN, a key twice (the last one wins),
numbers of a thousand digits, halves of surrogate pairs; and deep nesting ends in a
RecursionError, how deep depends on the stack that is left. Here each of these is
`Malformed`, with a reason that a model can use.
"""

import json
import re

LONGEST = 2_000  # characters of one value
LONGEST_NUMBER = 24  # characters; a double takes no more
DEEPEST = 5


class Malformed(ValueError):
    """What a model wrote is not what it should be; the message says why."""


def read(text, start=0):
    """Read the JSON value that begins at `start`.

    Args:
      text: str; what follows the value is not looked at.
      start: position of the value's first character.
    Returns:
      (value, end): what it holds, and the position after it.
    Raises:
      Malformed: it is no JSON, or more than `LONGEST` characters of it.
    """
    piece = text[start : start + LONGEST]
    if piece[:1] in ("[", "{"):
        _check_depth(piece)
    try:
        value, length = _DECODER.raw_decode(piece)
    except json.JSONDecodeError as error:
        if len(piece) == LONGEST:
            raise Malformed(f"the JSON is longer than {LONGEST} letters") from error
        near = ascii(piece[error.pos : error.pos + 12])
        raise Malformed(f"the JSON is broken at {near}: {error.msg}") from error
    _check_text(value)
    return value, start + length


def read_all(text):
    """Read JSON values one after the other, with nothing but space between them.

    Returns:
      list of values, at least one.
    Raises:
      Malformed: there is none, or something else among them.
    """
    values, position = [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        value, position = read(text, position)
        values.append(value)
    if not values:
        raise Malformed("there is nothing in it")
    return values


def _object(pairs):
    members = dict(pairs)
    if len(members) < len(pairs):
        raise Malformed("the same name stands twice in one object")
    return members


def _number(digits):
    if len(digits) > LONGEST_NUMBER:
        raise Malformed(f"a number has more than {LONGEST_NUMBER} characters")
    value = float(digits) if set(digits) & set(".eE") else int(digits)
    if value in (float("inf"), float("-inf")):
        raise Malformed("a number is too large")
    return value


def _constant(name):
    raise Malformed(f"{name} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_number,
    parse_float=_number,
    parse_constant=_constant,
)
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def _check_depth(piece):
    """Raise where the value that begins the piece is nested too deep."""
    depth = 0
    for token in _STRING_OR_BRACKET.findall(piece):
        depth += _STEPS.get(token, 0)
        if depth > DEEPEST:
            raise Malformed(f"it is nested more than {DEEPEST} deep")
        if depth == 0:
            return


def _check_text(value):
    """Raise where a text in the value is not Unicode."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Malformed("a text holds half a character") from error
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_text(name)
            _check_text(member)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)
