"""Conversations with tools, as engines hand them to reward functions, made traces.

TRL hands on messages: what the model said, its calls apart, and what the tools told it.
Tunix and MaxText hand on a text, which is one turn of the model: Tunix's learner of
agents takes the first turn of a conversation and nothing else. The food rewards judge
`tools.tool.Trace`.
"""

import dataclasses
import functools
import json
import re

from helpers.rewards.functions import completion_text
from helpers.tools import calls as tool_calls
from helpers.tools.calls import MOST_CALLS, Call, Verdict
from helpers.tools.tool import Trace, run_call


class ConversationRefused(ValueError):
    """A conversation is no trace: what it says cannot be judged."""


def on_conversations(reward, grammar, tools):
    """A food reward for an engine: of texts or messages, and a column of JSON or lists.

    Args:
      reward: of `rewards.food_rewards`, or one like it.
      grammar: the `Grammar` in which the model writes calls.
      tools: list of `Tool`, those that there are. They are run again, so a result must
        depend on the call alone; what the engine told the model must be the same.
    Returns:
      The reward function, of the same name; it raises `ConversationRefused`.
    """

    @functools.wraps(reward)
    def judged(prompts, completions, portions, **columns):
        traces = [as_trace(completion, grammar, tools) for completion in completions]
        wanted = [_portions(told) for told in portions]
        return reward(prompts, traces, portions=wanted, **columns)

    return judged


def _portions(told):
    """What is on a picture, of JSON or a list; an empty list says that nothing is."""
    wanted = _json(told) if isinstance(told, str) else told
    if not isinstance(wanted, list):
        raise ConversationRefused(
            f"portions are {told!r}: neither a list nor JSON of one. [] is no food."
        )
    return wanted


def as_trace(completion, grammar, tools) -> Trace:
    """The trace of a completion of an engine.

    Args:
      completion: a text, one turn; or messages of "assistant" and "tool", where calls
        stand in `tool_calls` or in the content as the grammar writes them.
      grammar, tools: as for `on_conversations`.
    Raises:
      ConversationRefused: another role, calls said twice, a turn after the answer, or
        tools that told the model something else than they say here.
    """
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    segments: list[tuple[str, str]] = []
    turns: list[Verdict] = []
    calls: list[tuple[Call, dict]] = []
    due: list[tuple[dict, Call | None]] = []  # what the model must be told next
    for message in completion:
        text = completion_text([message | {"role": "assistant"}])
        segments.append((message["role"], text))
        if message["role"] == "tool":
            _require_told(text, due, grammar)
        elif message["role"] == "assistant":
            if turns and not (turns[-1].calls or turns[-1].error):
                raise ConversationRefused(f"The turn {text[:40]!r} follows an answer.")
            _require_all_told(due, f"the turn {text[:40]!r} follows")
            verdict = _verdict(message, text, grammar)
            results = [run_call(tools, call) for call in verdict.calls]
            calls += zip(verdict.calls, results, strict=True)
            due = list(zip(results, verdict.calls, strict=True))
            due += [({"error": verdict.error}, None)] if verdict.error else []
            turns.append(verdict)
        else:
            raise ConversationRefused(
                f"A message of role {message['role']!r}: only the assistant's and the "
                "tools' stand in a completion."
            )
    if segments[-1:] and segments[-1][0] == "tool":  # its last calls may be cut off
        _require_all_told(due, "it ends there")
    return Trace(tuple(segments), tuple(turns), tuple(calls))


def _require_all_told(due, then):
    if due:
        raise ConversationRefused(f"{len(due)} calls have no result, and {then}.")


def _verdict(message, text, grammar):
    """What a turn of the model is, its calls in the text or beside it."""
    found = grammar.parse(text)
    if thought := message.get("reasoning_content"):
        found = dataclasses.replace(found, thought=thought)
    beside = message.get("tool_calls") or []
    if not beside:
        return found
    if found.calls or found.error:
        raise ConversationRefused(f"Calls in the text and beside it: {text[:60]!r}.")
    try:
        calls = tuple(_call(each["function"]) for each in beside)
        if len(calls) > MOST_CALLS:
            raise tool_calls.Malformed(f"there are more than {MOST_CALLS} calls")
    except tool_calls.Malformed as reason:
        return dataclasses.replace(found, error=f"This is no call: {reason}.")
    return dataclasses.replace(found, calls=calls)


def _call(function):
    """A call of which the arguments are a dict, or JSON of one."""
    arguments = function["arguments"]
    if isinstance(arguments, str):
        arguments, end = tool_calls.read_json(arguments)
    if not isinstance(arguments, dict):
        raise tool_calls.Malformed("the arguments are no object")
    return Call(function["name"], arguments)


def _require_told(text, due, grammar):
    """Takes from `due` what a tool's message told the model: one result, or all."""
    if not due:
        raise ConversationRefused(f"The tool's {text[:60]!r} answers no call.")
    results, calls = zip(*due, strict=True)
    ours = grammar.results(results, calls)
    if len(ours) == 1 and text == ours[0]["content"]:
        due.clear()
        return
    result, _ = due.pop(0)
    told = text == str(result) or _json(text) == result
    if not told and not ("error" in result and _tells_an_error(text)):
        raise ConversationRefused(
            f"The model was told {text[:80]!r}, and the tool says {result} here: it "
            "would be judged by what it did not see."
        )


def _tells_an_error(text):
    """Whether engines' own words for a failed call are all that a text has."""
    found = _json(text)
    if isinstance(found, dict):
        return list(found) == ["error"]
    return re.match(r"\W*([\w.]*Error\b|error\b)", text, re.IGNORECASE) is not None


def _json(text):
    try:
        return json.loads(text)
    except ValueError:
        return None
