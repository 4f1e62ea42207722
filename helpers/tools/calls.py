"""Tool calls as text: what a turn of a model is, and a strict reader of JSON.

How each model family writes its calls is in `helpers.tools.grammars`. Which tools there
are is not known here.

A turn is thought, then words, then calls, and nothing after them: what a model writes
after a call is the result that it invents. Nothing a model wrote is ever evaluated:
whatever the syntax, a call becomes JSON first, token by token, and one strict reader
takes it from there, so all families have the same limits on size and depth.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_CALLS = 4  # of one turn
LONGEST_TURN = 20_000  # characters
LONGEST_JSON = 2_000  # characters of one value
DEEPEST = 5
THINK = ("<think>", "</think>")


class Malformed(ValueError):
    """What a model wrote is not what it should be; the message says why."""


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
        """Reads one turn of the model, its end-of-turn token taken off.

        Args:
          text: any str; GEMMA4's with its special tokens (`skip_special_tokens` off).
        Returns:
          A Verdict; nothing raises.
        """
        if len(text) > LONGEST_TURN:
            return Verdict(error=f"the turn is longer than {LONGEST_TURN} letters.")
        thought, spoken = self._split_thought(text)
        starts = (match.start() for match in self.begin.finditer(spoken))
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

    def _split_thought(self, text):
        """The thought and what is said: after its last end, before a new begin."""
        begin, end = self.marks
        thought, closed, spoken = text.rpartition(end)
        spoken, _, unfinished = spoken.partition(begin)
        thought = thought.partition(begin)[2] or thought if closed else unfinished
        return thought.strip(), spoken

    def _calls(self, text, position):
        calls = []
        while self.begin.match(text, position) and self.means(text, position):
            pairs, position = self.read(text, position)
            calls += [Call(*pair) for pair in pairs]
            if len(calls) > MOST_CALLS:
                raise Malformed(f"there are more than {MOST_CALLS} calls in one turn")
            position = after_space(text, position)
        if position < len(text):
            raise Malformed("something follows the call: stop, and wait for its result")
        return tuple(calls)

    def render(self, calls):
        """Writes calls as the family's chat template does.

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
        """The assistant's message that says `text` and makes the calls.

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
        """The messages that tell the model what its calls gave.

        Args:
          results: list of dicts, one per call; {"error": verdict.error} for a
            malformed one.
          calls: what was called, where that is known.
        Returns:
          list of messages: tool turns, or one user turn where the family has no tools.
        """
        known = calls or [None] * len(results)
        pairs = list(zip(results, known, strict=True))
        shown = [self.show(result, call) for result, call in pairs]
        if not self.in_template:
            content = self.frame.format("\n".join(shown))
            return [{"role": "user", "content": content}]
        names = [call.name if call else "unknown" for call in known]
        return [
            {"role": "tool", "name": name, "content": content}
            for name, content in zip(names, shown, strict=True)
        ]


# --- strict JSON ---


def read_json(text, start=0):
    """Reads the JSON value that begins at `start`; what follows it is not looked at.

    It is stricter than `json.loads`: no NaN, no name twice, no halves of surrogate
    pairs, at most LONGEST_JSON characters, at most DEEPEST levels.

    Returns:
      (value, end): what it holds, and the position after it.
    Raises:
      Malformed: it is no such JSON.
    """
    piece = text[start : start + LONGEST_JSON]
    try:
        value, length = _DECODER.raw_decode(piece)
        _check(value)
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        if _NESTED.match(piece):
            raise Malformed(_TOO_DEEP) from error
        if len(piece) == LONGEST_JSON:
            raise Malformed(
                f"the JSON is longer than {LONGEST_JSON} letters"
            ) from error
        near = ascii(piece[error.pos : error.pos + 12])
        raise Malformed(f"the JSON is broken at {near}: {error.msg}") from error
    return value, start + length


def read_values(text):
    """JSON values one after the other, with nothing but space between them."""
    values, position = [], after_space(text, 0)
    while position < len(text):
        value, position = read_json(text, position)
        values.append(value)
        position = after_space(text, position)
    if not values:
        raise Malformed("there is nothing in it")
    return values


_TOO_DEEP = f"it is nested more than {DEEPEST} deep"
_NESTED = re.compile(r"(\s*[\[{])" * (DEEPEST + 1))


def _check(value, depth=0):
    """Refuses a value that is too deep, infinite, or not Unicode."""
    if depth > DEEPEST:
        raise Malformed(_TOO_DEEP)
    if value in (float("inf"), float("-inf")):
        raise Malformed("a number is too large")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Malformed("a text holds half a character") from error
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _check(item, depth + 1)


def _object(pairs):
    members = dict(pairs)
    if len(members) < len(pairs):
        raise Malformed("the same name stands twice in one object")
    return members


def _constant(name):
    raise Malformed(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


_SPACE = re.compile(r"\s*")


def after_space(text, position):
    """Where the white space that begins at `position` ends."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
