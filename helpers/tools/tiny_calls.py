"""Calls of the course's tiny model, <<lookup pizza 150>>: short, in single digits.

A model of half a million parameters has no room for JSON. Its grammar knows each tool
by a `Short`: one word for the name, the arguments in the order in which the schema
requires them, and the one field of a result that the model is shown.
"""

import re
from typing import NamedTuple

from helpers.tools.calls import Grammar, Malformed

TEXT = r"([^<>\s]+(?: [^<>\s]+){0,7})"
WHOLE = r"([1-9][0-9]{0,3})"
_WORD = re.compile(r"<<([a-z]+)")


class Short(NamedTuple):
    """How the tiny model writes the calls of one tool, and what it reads of a result.

    word: lower-case letters, "lookup". schema: the tool's; it requires one text at
    most, and else numbers. example: arguments as written, "pizza 150". field: of a
    result, "kcal".
    """

    word: str
    schema: dict
    example: str
    field: str

    @property
    def name(self):
        """The tool's."""
        return self.schema["function"]["name"]

    @property
    def kinds(self):
        """{argument: whether it is text; else it is a whole number}, in order."""
        parameters = self.schema["function"]["parameters"]
        properties = parameters["properties"]
        names = parameters["required"]
        return {name: properties[name]["type"] == "string" for name in names}

    @property
    def form(self):
        """An example of a call."""
        return f"<<{f'{self.word} {self.example}'.strip()}>>"

    @property
    def said(self):
        """What stands in a call, in words: "lookup, a food and whole grams"."""
        kinds = self.kinds.items()
        listed = [f"a {n}" if is_text else f"whole {n}" for n, is_text in kinds]
        return ", ".join(filter(None, (self.word, " and ".join(listed))))


def grammar(shorts):
    """The tiny model's Grammar for these tools.

    Args:
      shorts: list of Short, at least one.
    Raises:
      ValueError: two have one word; or a tool that cannot be written so.
    """
    by_word = {short.word: short for short in shorts}
    by_name = {short.name: short for short in shorts}
    if not shorts or len(by_word) < len(shorts) or len(by_name) < len(shorts):
        raise ValueError("Give one Short per tool, each with a word of its own.")
    for short in shorts:
        _check(short)
    return Grammar(
        name="The tiny model",
        begin=re.compile(r"<<(?![-+.(0-9])"),  # <<48/2=24>> is a calculation
        read=lambda text, position: _read(by_word, text, position),
        write=lambda name, arguments: _write(by_name, name, arguments),
        form=" or ".join(short.form for short in shorts),
        between="",
        show=lambda result, call=None: _shown(by_name, result, call),
    )


def _check(short):
    kinds = list(short.kinds.values())
    fits = re.fullmatch("[a-z]+", short.word) and _pattern(short).fullmatch(short.form)
    if kinds.count(True) > 1 or not fits:
        raise ValueError(
            f"{short.form} is no call of {short.name} that could be read again: it "
            "takes at most one text, and whole numbers from 1 to 9999."
        )


def _pattern(short):
    pieces = [TEXT if is_text else WHOLE for is_text in short.kinds.values()]
    return re.compile(f"<<{' '.join((short.word, *pieces))}>>")


def _read(by_word, text, position):
    """Read one call, which begins at `position`; see `Grammar.read`."""
    word = _WORD.match(text, position)
    short = by_word.get(word[1]) if word else None
    near = text[position : position + 100]
    call = _pattern(short).match(near) if short else None
    if short is None or call is None:
        said = " or ".join(s.said for s in ([short] if short else by_word.values()))
        raise Malformed(f"it is not {said}, between << and >>")
    pairs = zip(short.kinds.items(), call.groups(), strict=True)
    arguments = {name: v if is_text else int(v) for (name, is_text), v in pairs}
    for name, is_text in short.kinds.items():
        if is_text:
            _check_text(name, arguments[name])
    return [(short.name, arguments)], position + call.end()


def _check_text(name, text):
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed(f"the {name} holds half a character") from error


def _write(by_name, name, arguments):
    short = by_name.get(name)
    if short is None or set(arguments) != set(short.kinds):
        known = [f"{s.name}, of {' and '.join(s.kinds)}" for s in by_name.values()]
        raise Malformed(f"it only knows {' or '.join(known)}")
    values = (str(arguments[key]) for key in short.kinds)
    return f"<<{' '.join((short.word, *values))}>>"


def _shown(by_name, result, call):
    """`kcal 402`; an error is short, for the tiny model reads it letter by letter."""
    short = by_name.get(call.name) if call else None
    for field in [short.field] if short else [s.field for s in by_name.values()]:
        if field in result:
            return f"{field} {result[field]}"
    close = result.get("suggestions")
    named = isinstance(close, list) and close and isinstance(close[0], str)
    return f"error, try {close[0].replace('_', ' ')}" if named else "error"
