"""Tool calls as text: how each model family writes them, and a strict reader for each.

    HERMES   <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>
    GEMMA3   a ```tool_code fence with tool(key="value"),
             or a ```json fence with {"name": ..., "parameters": {...}}
    GEMMA4   <|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>

How each writes a call is in `helpers.tools.calls`; the course's own tiny model
writes <<lookup pizza 150>>, see `helpers.tools.tiny_calls`. Which tools there are is
not known here.

A turn is thought, then words, then calls, and nothing after them: what a model writes
after a call is the result that it invents. Nothing a model wrote is ever evaluated.

Sources: qwen.readthedocs.io, "Function calling"; ai.google.dev, "Function calling with
Gemma", "Gemma 4 prompt formatting" and the chat template of Gemma 4.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST_JSON = 2_000  # characters of one value
LONGEST_NUMBER = 24  # characters; a double takes no more
DEEPEST = 5


class Malformed(ValueError):
    """What a model wrote is not what it should be; the message says why."""


def read_json(text, start=0):
    """Read the JSON value that begins at `start`.

    Args:
      text: str; what follows the value is not looked at.
      start: position of the value's first character.
    Returns:
      (value, end): what it holds, and the position after it.
    Raises:
      Malformed: it is no JSON, or more than `LONGEST_JSON` characters of it.
    """
    piece = text[start : start + LONGEST_JSON]
    if piece[:1] in ("[", "{"):
        _check_depth(piece)
    try:
        value, length = _DECODER.raw_decode(piece)
    except json.JSONDecodeError as error:
        if len(piece) == LONGEST_JSON:
            raise Malformed(
                f"the JSON is longer than {LONGEST_JSON} letters"
            ) from error
        near = ascii(piece[error.pos : error.pos + 12])
        raise Malformed(f"the JSON is broken at {near}: {error.msg}") from error
    _check_text(value)
    return value, start + length


def read_json_values(text):
    """Read JSON values one after the other, with nothing but space between them.

    Returns:
      list of values, at least one.
    Raises:
      Malformed: there is none, or something else among them.
    """
    values, position = [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        value, position = read_json(text, position)
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
    value, position = read_json(text, after_space(text, position))
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
    body = text[position : end if end >= 0 else None][:LONGEST_JSON]
    try:
        values = read_json_values(body)
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
    if len(body) > LONGEST_JSON:
        raise Malformed(f"it is longer than {LONGEST_JSON} letters")
    is_json = fence[1] == "json" or _JSON_INSIDE.match(body)
    values = read_json_values(body if is_json else _python_to_json(body))
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
    for kind, token in _tokens_of(_PYTHON, body):
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
    piece = text[end : end + LONGEST_JSON]
    for kind, token in _tokens_of(_GEMMA4, piece):
        end += len(token)
        if kind == "end":
            break
        if kind in ("string", "key"):
            token = json.dumps(token.removeprefix(QUOTE).removesuffix(QUOTE))
        pieces.append(_WORDS.get(token, token))
    else:
        raise Malformed("<tool_call|> is missing")
    values = read_json_values("".join(pieces))
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


def _tokens_of(pattern, text):
    """Yield (kind, token) until the end of the text; what is no token is Malformed."""
    position = 0
    while position < len(text):
        found = pattern.match(text, position)
        if found is None:
            near = ascii(text[position : position + 12])
            raise Malformed(f"{near} has no place in a call")
        yield found.lastgroup, found[found.lastgroup]
        position = found.end()


MOST_CALLS = 4  # of one turn
LONGEST_TURN = 20_000  # characters
THINK = ("<think>", "</think>")


@dataclass(frozen=True)
class Call:
    """One call: the tool's name, and a dict of arguments for JSON."""

    name: str
    arguments: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What a turn is: calls, or no call, or an `error` that tells the model why not.

    `thought` is what it thought, `text` what it said before any call; both stripped.
    """

    calls: tuple = ()
    error: str | None = None
    thought: str = ""
    text: str = ""


@dataclass(frozen=True)
class Grammar:
    """How a family writes calls and reads results.

    Args:
      name: what it is called in messages to people.
      begin: pattern of what begins a call, and of an end without a beginning.
      means: (text, position of `begin`) -> whether a call is meant there.
      read: (text, position of `begin`) -> ([(name, arguments), ...], position after).
      write: (name, arguments) -> text of one call.
      form: an example, which a model is told when its call is malformed.
      between: text between two calls.
      marks: what begins and ends a thought.
      in_template: whether the family's chat template writes calls and tool turns
        itself; if not, they stand in the content of messages.
      show: (result dict, Call or None) -> text that the model reads.
      frame: where results stand that no template frames.
    """

    name: str
    begin: re.Pattern
    read: Callable
    write: Callable
    form: str
    between: str = "\n"
    marks: tuple = THINK
    in_template: bool = False
    show: Callable = lambda result, call=None: json.dumps(result)
    frame: str = "{}"
    means: Callable = lambda text, position: True

    def parse(self, text):
        """Judge one turn of the model, its end-of-turn token taken off.

        Args:
          text: any str; GEMMA4's with its special tokens (`skip_special_tokens` off).
        Returns:
          A Verdict; nothing raises.
        """
        if len(text) > LONGEST_TURN:
            return Verdict(error=f"the turn is longer than {LONGEST_TURN} letters.")
        thought, spoken = _split(text, self.marks)
        starts = (found.start() for found in self.begin.finditer(spoken))
        start = next((at for at in starts if self.means(spoken, at)), None)
        if start is None:
            return Verdict(thought=thought, text=spoken.strip())
        before = spoken[:start].strip()
        try:
            calls = self._calls(spoken, start)
        except Malformed as reason:
            error = f"This is no call: {reason}. Write {self.form}"
            return Verdict((), error, thought, before)
        return Verdict(calls, None, thought, before)

    def _calls(self, text, position):
        calls = []
        while self.begin.match(text, position) and self.means(text, position):
            found, position = self.read(text, position)
            calls += [Call(*call) for call in found]
            if len(calls) > MOST_CALLS:
                raise Malformed(f"there are more than {MOST_CALLS} calls in one turn")
            position = after_space(text, position)
        if position < len(text):
            raise Malformed("something follows the call: stop, and wait for its result")
        return tuple(calls)

    def render(self, calls):
        """Write calls as the family's chat template does.

        Args:
          calls: list of Call, at least one.
        Returns:
          str; `parse` of it is the same calls.
        Raises:
          ValueError: the grammar has no way to write one of them.
        """
        calls = tuple(calls)
        try:
            text = self.between.join(self.write(c.name, c.arguments) for c in calls)
            written = self.parse(text).calls
        except (Malformed, TypeError) as reason:
            raise ValueError(f"{self.name} cannot write {calls}: {reason}") from reason
        if not calls or written != calls:
            raise ValueError(
                f"{self.name} cannot write {calls}. It has words like {self.form} and "
                f"takes 1 to {MOST_CALLS} calls; choose other arguments."
            )
        return text

    def message(self, calls, text=""):
        """Return the assistant's message that says `text` and makes the calls.

        Raises:
          ValueError: see `render`.
        """
        written = self.render(calls)
        if not self.in_template:
            content = f"{text}\n{written}" if text else written
            return {"role": "assistant", "content": content}
        functions = [{"name": c.name, "arguments": c.arguments} for c in calls]
        tool_calls = [{"type": "function", "function": f} for f in functions]
        return {"role": "assistant", "content": text, "tool_calls": tool_calls}

    def schemas(self, tools):
        """What the family's chat template is told of tools; None where it has none.

        Args:
          tools: list of `tool.Tool`. A model of a family without is told of them in the
            words of its prompt, or has learned them.
        """
        return [tool.schema for tool in tools] if self.in_template and tools else None

    def results(self, results, calls=()):
        """Return the messages that tell the model what its calls gave.

        Args:
          results: list of dicts, one per call; {"error": verdict.error} for a
            malformed one.
          calls: what was called, where that is known.
        Returns:
          list of messages: tool turns, or one user turn where the family has no tools.
        """
        known = calls or [None] * len(results)
        pairs = zip(results, known, strict=True)
        shown = [self.show(result, call) for result, call in pairs]
        if not self.in_template:
            content = self.frame.format("\n".join(shown))
            return [{"role": "user", "content": content}]
        names = [call.name if call else "unknown" for call in known]
        return [
            {"role": "tool", "name": name, "content": content}
            for name, content in zip(names, shown, strict=True)
        ]


def _split(text, marks):
    """The thought and what is said: after the last end of thought, before a new one."""
    begin, end = marks
    thought, closed, spoken = text.rpartition(end)
    spoken, opened, unfinished = spoken.partition(begin)
    thought = thought.partition(begin)[2] or thought if closed else unfinished
    return thought.strip(), spoken


HERMES = Grammar(
    name="Qwen (Hermes)",
    begin=re.compile("</?tool_call>"),
    read=read_hermes,
    write=write_hermes,
    form='<tool_call>\n{"name": "tool", "arguments": {"key": "value"}}\n</tool_call>',
    in_template=True,
)
GEMMA3 = Grammar(
    name="Gemma 3",
    begin=re.compile("```(?:tool_code|json)"),
    read=read_gemma3,
    write=write_gemma3,
    form='```tool_code\ntool(key="value")\n```',
    frame="```tool_output\n{}\n```",
    means=means_gemma3,
)
GEMMA4 = Grammar(
    name="Gemma 4",
    begin=re.compile(r"<\|tool_call>|<tool_call\|>"),
    read=read_gemma4,
    write=write_gemma4,
    form='<|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>',
    between="",
    marks=("<|channel>", "<channel|>"),
    in_template=True,
)
