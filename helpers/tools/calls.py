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

    @property
    def message(self) -> dict:
        """The call in the "tool_calls" of a message."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class Verdict:
    """What a turn is: calls, or no call, or an `error` that tells the model why not.

    `thought` is what it thought, `text` what stands before any call; both stripped.
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
      read: (text, position of `begin`) -> ([(name, arguments), ...], position after).
      write: (name, arguments) -> text of one call.
      form: an example, which a model reads when its call is malformed.
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
        start = self.begin.search(spoken)
        if start is None:
            return Verdict(thought=thought, text=spoken.strip())
        before = spoken[: start.start()].strip()
        try:
            calls = self._calls(spoken, start.start())
        except Malformed as reason:
            error = f"This is no call: {reason}. Write {self.form}"
            return Verdict((), error, thought, before)
        return Verdict(calls, None, thought, before)

    def _split_thought(self, text):
        """The thought and the words: after its last end, before a new begin."""
        begin, end = self.marks
        thought, closed, spoken = text.rpartition(end)
        spoken, _, unfinished = spoken.partition(begin)
        thought = thought.partition(begin)[2] or thought if closed else unfinished
        return thought.strip(), spoken

    def _calls(self, text, position):
        calls = []
        while self.begin.match(text, position):
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
        try:
            text = self.between.join(self.write(c.name, c.arguments) for c in calls)
        except (TypeError, KeyError):
            text = ""
        if not calls or self.parse(text).calls != tuple(calls):
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
        tool_calls = [call.message for call in calls]
        return {"role": "assistant", "content": text, "tool_calls": tool_calls}

    def schemas(self, tools):
        """The tools, for the family's chat template; None where it has none.

        Args:
          tools: list of `tool.Tool`. A model of a family without reads of them in its
            prompt, or has learned them.
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
        shown = [self.show(*pair) for pair in zip(results, known, strict=True)]
        if not self.in_template:
            content = self.frame.format("\n".join(shown))
            return [{"role": "user", "content": content}]
        names = [call.name if call else "unknown" for call in known]
        return [
            {"role": "tool", "name": name, "content": content}
            for name, content in zip(names, shown, strict=True)
        ]


def strict_json(value) -> str:
    """The JSON of a value.

    Raises:
      TypeError, ValueError: it has none that everybody reads: NaN, half a surrogate
        pair, a set.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


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
        if _depth(value) > DEEPEST:
            raise RecursionError
        strict_json(value)
    except RecursionError:
        raise Malformed(f"it is nested more than {DEEPEST} deep") from None
    except ValueError as error:
        limit = f", or longer than {LONGEST_JSON} letters" * (piece != text[start:])
        raise Malformed(f"the JSON is broken{limit}: {str(error)[:80]}") from error
    return value, start + length


def read_object(text) -> dict:
    """Reads one JSON object that has nothing behind it; Malformed where it is none."""
    value, end = read_json(text.strip())
    if text.strip()[end:] or not isinstance(value, dict):
        raise Malformed("it must be one JSON object")
    return value


def _depth(value):
    members = value.values() if isinstance(value, dict) else value
    deeper = map(_depth, members) if isinstance(value, dict | list) else ()
    return isinstance(value, dict | list) + max(deeper, default=0)


def _unique(pairs):
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("the same name stands twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def after_space(text, position):
    """Where the white space that begins at `position` ends."""
    return len(text) - len(text[position:].lstrip())
