"""How each model family writes its tool calls, and how they are read back.

    HERMES   <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>
    GEMMA3   a ```tool_code fence with tool(key="value")
    GEMMA4   <|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>

The course's tiny model writes <<lookup pizza 150>>: see `nutrition.TINY`.

Sources: qwen.readthedocs.io, "Function calling"; ai.google.dev, "Function calling with
Gemma", "Gemma 4 prompt formatting" and the chat template of Gemma 4.
"""

import json
import re

from helpers.tools.calls import (
    LONGEST_JSON,
    Grammar,
    Malformed,
    after_space,
    read_json,
    read_object,
)

NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


def _to_call(value):
    """(name, arguments) of {"name": ..., "arguments": {...}}."""
    match value:
        case {"name": str(name), "arguments": dict(arguments), **rest}:
            if NAME.fullmatch(name) and not rest:
                return name, arguments
    raise Malformed('it needs a "name", "arguments" as an object, and nothing else')


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
    return [_to_call(value)], position + len("</tool_call>")


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


# --- Gemma 3: a fence with Python-like calls, one a line, or a list of them ---

_FENCE = re.compile(r"```tool_code[ \t]*\n(.*?)\n```", re.DOTALL)
_PYTHON = re.compile(
    r"""
    (?P<space> \s+ )
  | (?P<string> "(?: [^"\\\n] | \\. )*" | '(?: [^'\\\n] | \\. )*' )
  | (?P<call> [A-Za-z_][\w.]* ) \s* \(
  | (?P<key> [A-Za-z_]\w* ) \s* =(?!=)
  | (?P<word> (?: True|False|None )\b )
  | (?P<number> -?\d[\d.eE+-]* )
  | (?P<end> \) )
  | (?P<mark> [\[\],] )
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null"}


def _read_gemma3(text, position):
    fence = _FENCE.match(text, position)
    if fence is None:
        raise Malformed("the fence is not closed with ``` on a line of its own")
    body = _python_to_json(fence[1])
    listed = body if body.startswith("[") else f"[{body}]"
    values, end = read_json(listed)
    if listed[end:] or not values:
        raise Malformed("there is no call in it, or something beside its calls")
    return list(map(_to_call, values)), fence.end()


def _python_to_json(body):
    """f(food="pizza") becomes {"name": "f", "arguments": {"food": "pizza"}}."""
    pieces: list[str] = []
    is_open = False
    for kind, token in _tokens(_PYTHON, body):
        if kind == "call":
            if is_open:
                raise Malformed("a call stands inside a call")
            comma = "," * (pieces[-1:] == ["}}"])  # calls stand one to a line
            is_open, token = True, f'{comma}{{"name": "{token}", "arguments": {{'
        elif kind == "key":
            token = f'"{token}":'
        elif kind == "string":
            token = f'"{_ESCAPE.sub(_json_escape, token[1:-1])}"'
        elif kind == "end":
            is_open, token = False, "}}"
        if is_open or kind != "space":
            pieces.append(_WORDS.get(token, token))
    return "".join(pieces)


def _json_escape(match):
    """A quotation mark or an escape of a Python string, as JSON has it."""
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
    begin=re.compile("```tool_code"),
    read=_read_gemma3,
    write=_write_gemma3,
    form='```tool_code\ntool(key="value")\n```',
    frame="```tool_output\n{}\n```",
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
    pieces: list[str] = []
    end = begin.end()
    for kind, token in _tokens(_GEMMA4, text[end : end + LONGEST_JSON]):
        end += len(token)
        if kind == "end":
            return [(begin[1], read_object("".join(pieces)))], end
        if kind in ("string", "key"):
            token = json.dumps(token.removeprefix(QUOTE).removesuffix(QUOTE))
        pieces.append(_WORDS.get(token, token))
    raise Malformed("<tool_call|> is missing")


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
