"""Tool calls as text: how each model family writes them, and a strict reader for each.

    HERMES   <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>
    GEMMA3   a ```tool_code fence with tool(key="value"),
             or a ```json fence with {"name": ..., "parameters": {...}}
    GEMMA4   <|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>

How each writes a call is in `helpers.tools.call_syntax`; the course's own tiny model
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

from helpers.tools import call_syntax
from helpers.tools.strict_json import Malformed

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
            position = call_syntax.after_space(text, position)
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
    read=call_syntax.read_hermes,
    write=call_syntax.write_hermes,
    form='<tool_call>\n{"name": "tool", "arguments": {"key": "value"}}\n</tool_call>',
    in_template=True,
)
GEMMA3 = Grammar(
    name="Gemma 3",
    begin=re.compile("```(?:tool_code|json)"),
    read=call_syntax.read_gemma3,
    write=call_syntax.write_gemma3,
    form='```tool_code\ntool(key="value")\n```',
    frame="```tool_output\n{}\n```",
    means=call_syntax.means_gemma3,
)
GEMMA4 = Grammar(
    name="Gemma 4",
    begin=re.compile(r"<\|tool_call>|<tool_call\|>"),
    read=call_syntax.read_gemma4,
    write=call_syntax.write_gemma4,
    form='<|tool_call>call:tool{key:<|"|>value<|"|>}<tool_call|>',
    between="",
    marks=("<|channel>", "<channel|>"),
    in_template=True,
)
