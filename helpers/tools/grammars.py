"""How each model family writes its tool calls, and how they are read back.

    HERMES   <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>
    GEMMA3   a ```tool_code fence with tool(key="value"),
             or a ```json fence with {"name": ..., "parameters": {...}}
    GEMMA4   <|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>
    tiny     <<lookup pizza 150>>, the course's own tiny model

Sources: qwen.readthedocs.io, "Function calling"; ai.google.dev, "Function calling with
Gemma", "Gemma 4 prompt formatting" and the chat template of Gemma 4.
"""

import json
import re
from typing import NamedTuple

from helpers.tools.calls import (
    LONGEST_JSON,
    Grammar,
    Malformed,
    after_space,
    read_json,
    read_values,
)

NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


def _to_call(value, key):
    """(name, arguments) of {"name": ..., key: {...}}."""
    if not isinstance(value, dict) or set(value) != {"name", key}:
        raise Malformed(f'it needs "name" and "{key}", and nothing else')
    if not isinstance(value["name"], str) or not NAME.fullmatch(value["name"]):
        raise Malformed("the name is not that of a tool")
    if not isinstance(value[key], dict):
        raise Malformed(f'"{key}" must be an object')
    return value["name"], value[key]


def _tokens(pattern, text):
    """Yields (kind, token) until the end of the text; what is no token is Malformed."""
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            near = ascii(text[position : position + 12])
            raise Malformed(f"{near} has no place in a call")
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()


# --- Qwen: JSON between tags ---


def _read_hermes(text, position):
    if not text.startswith("<tool_call>", position):
        raise Malformed("</tool_call> ends no call")
    position = after_space(text, position + len("<tool_call>"))
    value, position = read_json(text, position)
    position = after_space(text, position)
    if not text.startswith("</tool_call>", position):
        raise Malformed("</tool_call> is missing")
    return [_to_call(value, "arguments")], position + len("</tool_call>")


def _write_hermes(name, arguments):
    written = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'


HERMES = Grammar(
    name="Qwen (Hermes)",
    begin=re.compile("</?tool_call>"),
    read=_read_hermes,
    write=_write_hermes,
    form='<tool_call>\n{"name": "tool", "arguments": {"key": "value"}}\n</tool_call>',
    in_template=True,
)


# --- Gemma 3: a fence with Python-like calls, or with JSON ---

_FENCE = re.compile(r"```(tool_code|json)[ \t]*\n")
_PYTHON = re.compile(
    r"""
    (?P<space> \s+ )
  | (?P<double> "(?: [^"\\\n] | \\. )*" )
  | (?P<single> '(?: [^'\\\n] | \\. )*' )
  | (?P<call> [A-Za-z_][\w.]* ) \s* \(
  | (?P<key> [A-Za-z_]\w* ) \s* =(?!=)
  | (?P<word> (?: True|False|None )\b )
  | (?P<number> -?\d[\d.eE+-]* )
  | (?P<mark> [\[\],)] )
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r'\\x(?P<hex>[0-9a-fA-F]{2})|\\.|"', re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null"}


def _means_gemma3(text, position):
    """Whether the fence at `position` is meant as a call: JSON may be any data.

    JSON is a call by its keys, "name" and "parameters"; where it is broken, by finding
    them in it.
    """
    begin = "```json"
    if not text.startswith(begin, position):
        return True
    body = text[position + len(begin) :].partition("```")[0][:LONGEST_JSON]
    try:
        values = _listed(read_values(body))
    except Malformed:
        keys = r'"name"\s*:', r'"(?:parameters|arguments)"\s*:'
        return all(re.search(key, body) for key in keys)
    names = [set(value) for value in values if isinstance(value, dict)]
    return any("name" in x and x & {"parameters", "arguments"} for x in names)


def _listed(values):
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _read_gemma3(text, position):
    fence = _FENCE.match(text, position)
    if fence is None:
        raise Malformed("the fence must be followed by a line end")
    end = text.find("\n```", fence.end() - 1)
    if end < 0:
        raise Malformed("the fence is not closed with ``` on a line of its own")
    body = text[fence.end() : end]
    if len(body) > LONGEST_JSON:
        raise Malformed(f"it is longer than {LONGEST_JSON} letters")
    is_json = fence[1] == "json" or re.match(r"\s*\[?\s*\{", body)
    values = _listed(read_values(body if is_json else _python_to_json(body)))
    return [_to_call(value, "parameters") for value in values], end + len("\n```")


def _python_to_json(body):
    """f(food="pizza") becomes {"name": "f", "parameters": {"food": "pizza"}}."""
    pieces, is_open = [], False
    for kind, token in _tokens(_PYTHON, body):
        if kind == "call":
            if is_open:
                raise Malformed("a call stands inside a call")
            is_open, token = True, f'{{"name": "{token}", "parameters": {{'
        elif kind == "key":
            token = f'"{token}":'
        elif kind in ("single", "double"):
            token = f'"{_ESCAPE.sub(_json_escape, token[1:-1])}"'
        elif token == ")":
            if not is_open:
                raise Malformed("a parenthesis is closed that was never opened")
            is_open, token = False, "}}"
        pieces.append(_WORDS.get(token, token))
    return "".join(pieces)


def _json_escape(match):
    """A quotation mark or an escape of a Python string, as JSON has it."""
    if match["hex"]:
        return f"\\u00{match['hex']}"
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


def _write_gemma3(name, arguments):
    listed = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())
    return f"```tool_code\n{name}({listed})\n```"


def _python(value):
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    is_text = isinstance(value, str)
    return json.dumps(value, ensure_ascii=False) if is_text else repr(value)


GEMMA3 = Grammar(
    name="Gemma 3",
    begin=re.compile("```(?:tool_code|json)"),
    read=_read_gemma3,
    write=_write_gemma3,
    form='```tool_code\ntool(key="value")\n```',
    frame="```tool_output\n{}\n```",
    means=_means_gemma3,
)


# --- Gemma 4: control tokens, bare keys, strings between <|"|> ---

QUOTE = '<|"|>'
_GEMMA4_CALL = re.compile(rf"<\|tool_call>call:({NAME.pattern})(?=\{{)", re.ASCII)
_GEMMA4 = re.compile(
    r"""
    (?P<space> \s+ )
  | (?P<string> <\|"\|> .*? <\|"\|> )
  | (?P<end> <tool_call\|> )
  | (?P<key> [A-Za-z_][\w.-]* ) (?= \s*: )
  | (?P<word> (?: true|false|null|None )\b )
  | (?P<number> -?\d[\d.eE+-]* )
  | (?P<mark> [{}\[\],:] )
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)


def _read_gemma4(text, position):
    begin = _GEMMA4_CALL.match(text, position)
    if begin is None:
        raise Malformed("<|tool_call> must be followed by call:name{")
    pieces, end = [], begin.end()
    for kind, token in _tokens(_GEMMA4, text[end : end + LONGEST_JSON]):
        end += len(token)
        if kind == "end":
            break
        if kind in ("string", "key"):
            token = json.dumps(token.removeprefix(QUOTE).removesuffix(QUOTE))
        pieces.append(_WORDS.get(token, token))
    else:
        raise Malformed("<tool_call|> is missing")
    values = read_values("".join(pieces))
    if len(values) > 1:
        raise Malformed("there is more than one pair of braces")
    return [_to_call({"name": begin[1], "arguments": values[0]}, "arguments")], end


def _write_gemma4(name, arguments):
    return f"<|tool_call>call:{name}{_gemma4(arguments)}<tool_call|>"


def _gemma4(value):
    if isinstance(value, dict):
        # Sorted, and None as Python says it: so does the family's chat template.
        pairs = sorted(value.items(), key=lambda pair: (pair[0].lower(), pair[0]))
        return f"{{{','.join(f'{key}:{_gemma4(member)}' for key, member in pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_gemma4, value))}]"
    if isinstance(value, str):
        return f"{QUOTE}{value}{QUOTE}"
    return str(value).lower() if isinstance(value, bool) else str(value)


GEMMA4 = Grammar(
    name="Gemma 4",
    begin=re.compile(r"<\|tool_call>|<tool_call\|>"),
    read=_read_gemma4,
    write=_write_gemma4,
    form='<|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>',
    between="",
    marks=("<|channel>", "<channel|>"),
    in_template=True,
)

# By `calls` of an entry of `model.families`.
GRAMMARS = {"hermes": HERMES, "gemma3": GEMMA3, "gemma4": GEMMA4}


# --- the course's tiny model: short, in single digits ---

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
    def description(self):
        """What stands in a call, in words: "lookup, a food and whole grams"."""
        kinds = self.kinds.items()
        listed = [f"a {n}" if is_text else f"whole {n}" for n, is_text in kinds]
        return ", ".join(filter(None, (self.word, " and ".join(listed))))


def tiny_grammar(shorts):
    """The tiny model's Grammar for these tools.

    Args:
      shorts: list of Short, at least one.
    Raises:
      ValueError: two have one word; or a tool cannot be written so.
    """
    by_word = {short.word: short for short in shorts}
    by_name = {short.name: short for short in shorts}
    if not shorts or len(by_word) < len(shorts) or len(by_name) < len(shorts):
        raise ValueError("Give one Short per tool, each with a word of its own.")
    for short in shorts:
        texts = sum(short.kinds.values())
        readable = _pattern(short).fullmatch(short.form)
        if texts > 1 or not readable or not re.fullmatch("[a-z]+", short.word):
            raise ValueError(
                f"{short.form} is no call of {short.name} that could be read again: it "
                "takes at most one text, and whole numbers from 1 to 9999."
            )
    return Grammar(
        name="The tiny model",
        begin=re.compile(r"<<(?![-+.(0-9])"),  # <<48/2=24>> is a calculation
        read=lambda text, position: _read_tiny(by_word, text, position),
        write=lambda name, arguments: _write_tiny(by_name, name, arguments),
        form=" or ".join(short.form for short in shorts),
        between="",
        show=lambda result, call=None: _shown(by_name, result, call),
    )


def _pattern(short):
    pieces = [TEXT if is_text else WHOLE for is_text in short.kinds.values()]
    return re.compile(f"<<{' '.join((short.word, *pieces))}>>")


def _read_tiny(by_word, text, position):
    word = _WORD.match(text, position)
    short = by_word.get(word[1]) if word else None
    near = text[position : position + 100]
    call = _pattern(short).match(near) if short else None
    if short is None or call is None:
        known = [short] if short else by_word.values()
        forms = " or ".join(each.description for each in known)
        raise Malformed(f"it is not {forms}, between << and >>")
    arguments = {}
    for (name, is_text), value in zip(short.kinds.items(), call.groups(), strict=True):
        if is_text and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Malformed(f"the {name} holds half a character")
        arguments[name] = value if is_text else int(value)
    return [(short.name, arguments)], position + call.end()


def _write_tiny(by_name, name, arguments):
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
