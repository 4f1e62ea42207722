"""What happened in a conversation with tools: who wrote what, and what calls gave."""

from dataclasses import dataclass

from helpers.tools.tool import run_call
from helpers.tools.tool_calls import Call, Verdict


@dataclass(frozen=True)
class Trace:
    """One conversation after its prompt, as rollouts make it and rewards judge it.

    `segments` are (role, text), role "assistant" or "tool", in order; `turns` the
    `tool_calls.Verdict` of each of the assistant's segments; `calls` (Call, result) of
    every well-formed call, the result a dict.
    """

    segments: tuple
    turns: tuple
    calls: tuple = ()

    def __str__(self):
        return "\n".join(f"{role}: {text}" for role, text in self.segments)

    @property
    def messages(self):
        """The segments as messages, such as `rewards.completion_text` takes."""
        return [{"role": role, "content": text} for role, text in self.segments]

    @property
    def answer(self):
        """What the assistant says last; "" where the trace ends in a call."""
        if not self.turns or self.segments[-1][0] != "assistant":
            return ""
        last = self.turns[-1]
        return "" if last.calls or last.error else last.text

    @property
    def said(self):
        """All that the assistant says, thoughts and calls left out."""
        return "\n".join(turn.text for turn in self.turns)


def trace(grammar, texts, tools):
    """Play a conversation of which the assistant's turns are known.

    Args:
      grammar: a `tool_calls.Grammar`.
      texts: list of str, the assistant's turns; after one that makes no call, and
        whose call is not malformed, the conversation is over.
      tools: list of `tool.Tool`, those that there are.
    Returns:
      A Trace.
    Raises:
      ValueError: a turn follows the answer.
    """
    segments: list[tuple[str, str]] = []
    turns: list[Verdict] = []
    calls: list[tuple[Call, dict]] = []
    for text in texts:
        if turns and not (turns[-1].calls or turns[-1].error):
            raise ValueError(
                f"the turn {text[:40]!r} follows an answer: the conversation was over."
            )
        verdict = grammar.parse(text)
        segments.append(("assistant", text))
        turns.append(verdict)
        results = [run_call(tools, call) for call in verdict.calls]
        calls += zip(verdict.calls, results, strict=True)
        if verdict.error:
            results = [{"error": verdict.error}]
        if results:
            told = grammar.results(results, verdict.calls)
            segments += [("tool", message["content"]) for message in told]
    return Trace(tuple(segments), tuple(turns), tuple(calls))
