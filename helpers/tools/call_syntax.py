"""The writing of one call in each family's syntax, and its reading.

Whatever the syntax, a call becomes JSON first, token by token, and one strict reader
takes it from there: so all families have the same limits on size, depth and numbers.
"""

import json
import re

from helpers.tools import strict_json
from helpers.tools.strict_json import Malformed

_SPACE = re.compile(r"\s*")
NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)
QUOTE = '<|"|>'


def to_call(value, key):
    """Return (name, arguments) of {"name": ..., key: {...}}.

    Raises:
      Malformed: it is anything else.
    """
    if not isinstance(value, dict) or set(value) != {"name", key}:
        raise Malformed(f'it needs "name" and "{key}", and nothing else')
    if not isinstance(value["name"], str) or not NAME.fullmatch(value["name"]):
        raise Malformed("the name is not that of a tool")
    if not isinstance(value[key], dict):
        raise Malformed(f'"{key}" must be an object')
    return value["name"], value[key]


# --- Qwen: JSON between tags ---


def read_hermes(text, position):
    """Read one call between Qwen's tags, which begins at `position`.

    Returns:
      ([(name, arguments), ...], position after it).
    Raises:
      Malformed: it is written otherwise.
    """
    position = _after("<tool_call>", text, position, "</tool_call> ends no call")
    value, position = strict_json.read(text, after_space(text, position))
    position = after_space(text, position)
    position = _after("</tool_call>", text, position, "</tool_call> is missing")
    return [to_call(value, "arguments")], position


def write_hermes(name, arguments):
    """Write a call as Qwen does: JSON between tags."""
    written = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'


# --- Gemma 3: a fence with Python-like calls, or with JSON ---

_FENCE = re.compile(r"```(tool_code|json)[ \t]*\n")
_CALL_KEYS = re.compile(r'"name"\s*:'), re.compile(r'"(?:parameters|arguments)"\s*:')
_JSON_INSIDE = re.compile(r"\s*\[?\s*\{")
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


def means_gemma3(text, position):
    """Whether the fence at `position` is meant as a call: JSON may be any data.

    JSON is a call by its keys, "name" and "parameters"; where it is broken, by finding
    them in it.
    """
    begin = "```json"
    if not text.startswith(begin, position):
        return True
    position += len(begin)
    end = text.find("```", position)
    body = text[position : end if end >= 0 else None][: strict_json.LONGEST]
    try:
        values = strict_json.read_all(body)
    except Malformed:
        return all(key.search(body) for key in _CALL_KEYS)
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    keys = [set(value) for value in values if isinstance(value, dict)]
    return any("name" in own and own & {"parameters", "arguments"} for own in keys)


def read_gemma3(text, position):
    """Read all calls of one fence of Gemma 3, which begins at `position`.

    Returns:
      ([(name, arguments), ...], position after it).
    Raises:
      Malformed: it is written otherwise.
    """
    fence = _FENCE.match(text, position)
    if fence is None:
        raise Malformed("the fence must be followed by a line end")
    end = text.find("\n```", fence.end() - 1)
    if end < 0:
        raise Malformed("the fence is not closed with ``` on a line of its own")
    body = text[fence.end() : end]
    if len(body) > strict_json.LONGEST:
        raise Malformed(f"it is longer than {strict_json.LONGEST} letters")
    is_json = fence[1] == "json" or _JSON_INSIDE.match(body)
    values = strict_json.read_all(body if is_json else _python_to_json(body))
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return [to_call(value, "parameters") for value in values], end + len("\n```")


def _for_json(found):
    """A quotation mark or an escape of a Python string, as JSON has it."""
    if found["hex"]:
        return f"\\u00{found['hex']}"
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


def _python_to_json(body):
    """f(food="pizza") becomes {"name": "f", "parameters": {"food": "pizza"}}."""
    pieces, is_open = [], False
    for kind, token in _tokens(_PYTHON, body):
        if kind == "call":
            if is_open:
                raise Malformed("a call stands inside a call")
            is_open = True
            token = f'{{"name": "{token}", "parameters": {{'
        elif kind == "key":
            token = f'"{token}":'
        elif kind in ("single", "double"):
            token = f'"{_ESCAPE.sub(_for_json, token[1:-1])}"'
        elif token == ")":
            if not is_open:
                raise Malformed("a parenthesis is closed that was never opened")
            is_open, token = False, "}}"
        pieces.append(_WORDS.get(token, token))
    return "".join(pieces)


def write_gemma3(name, arguments):
    """Write a call as Gemma 3 does: Python in a fence."""
    listed = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())
    return f"```tool_code\n{name}({listed})\n```"


def _python(value):
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


# --- Gemma 4: control tokens, bare keys, strings between <|"|> ---

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


def read_gemma4(text, position):
    """Read one call between Gemma 4's tokens, which begins at `position`.

    Returns:
      ([(name, arguments), ...], position after it).
    Raises:
      Malformed: it is written otherwise.
    """
    begin = _GEMMA4_CALL.match(text, position)
    if begin is None:
        raise Malformed("<|tool_call> must be followed by call:name{")
    pieces, end = [], begin.end()
    piece = text[end : end + strict_json.LONGEST]
    for kind, token in _tokens(_GEMMA4, piece):
        end += len(token)
        if kind == "end":
            break
        if kind in ("string", "key"):
            token = json.dumps(token.removeprefix(QUOTE).removesuffix(QUOTE))
        pieces.append(_WORDS.get(token, token))
    else:
        raise Malformed("<tool_call|> is missing")
    values = strict_json.read_all("".join(pieces))
    if len(values) > 1:
        raise Malformed("there is more than one pair of braces")
    return [to_call({"name": begin[1], "arguments": values[0]}, "arguments")], end


def write_gemma4(name, arguments):
    """Write a call as Gemma 4's chat template does."""
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


def after_space(text: str, position: int) -> int:
    """Where the white space that begins at `position` ends."""
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _after(mark, text, position, complaint):
    if not text.startswith(mark, position):
        raise Malformed(complaint)
    return position + len(mark)


def _tokens(pattern, text):
    """Yield (kind, token) until the end of the text; what is no token is Malformed."""
    position = 0
    while position < len(text):
        found = pattern.match(text, position)
        if found is None:
            near = ascii(text[position : position + 12])
            raise Malformed(f"{near} has no place in a call")
        yield found.lastgroup, found[found.lastgroup]
        position = found.end()
