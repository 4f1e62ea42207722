"""Conversations with tools, as engines pass them to reward functions, made traces.

TRL passes messages: what the model wrote, its calls apart, and what the tools returned.
Tunix and MaxText pass a text, which is one turn of the model: Tunix's learner of agents
takes the first turn of a conversation and nothing else. The food rewards score a
`tools.tool.Trace`.
"""

import dataclasses
import functools
import json
import re

from helpers.rewards.functions import completion_text
from helpers.tools.calls import MOST_CALLS, Call, Malformed, Verdict, read_json
from helpers.tools.tool import Trace, run_call


class ConversationRefused(ValueError):
    """A conversation cannot be made a trace, so it cannot be scored."""


def on_conversations(reward, grammar, tools):
    """A food reward for an engine: of texts or messages, and a column of JSON or lists.

    Args:
      reward: of `rewards.food_rewards`, or one like it.
      grammar: the `Grammar` in which the model writes calls.
      tools: list of `Tool`, all there are. They are run again, so a result must depend
        on the call alone; the engine must have shown the model the same result.
    Returns:
      The reward function, of the same name; it raises `ConversationRefused`.
    """

    @functools.wraps(reward)
    def scored(prompts, completions, portions, **columns):
        traces = [as_trace(completion, grammar, tools) for completion in completions]
        wanted = [_json(x) if isinstance(x, str) else x for x in portions]
        if not all(isinstance(x, list) for x in wanted):
            raise ConversationRefused(
                f"portions are {portions!r:.200}: each is a list, or JSON of one. [] is"
                " no food."
            )
        return reward(prompts, traces, portions=wanted, **columns)

    return scored


def as_trace(completion, grammar, tools) -> Trace:
    """The trace of a completion of an engine.

    Args:
      completion: a text, one turn; or messages of "assistant" and "tool", where calls
        are in `tool_calls` or in the content as the grammar writes them.
      grammar, tools: as for `on_conversations`.
    Raises:
      ConversationRefused: another role, calls in two places, a turn after the answer,
        or tools that showed the model something else than they return here.
    """
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    segments: list[tuple[str, str]] = []
    turns: list[Verdict] = []
    calls: list[tuple[Call, dict]] = []
    due: list[tuple[dict, Call | None]] = []  # results that the model must see next
    for message in completion:
        role, text = message["role"], completion_text([message | {"role": "assistant"}])
        segments.append((role, text))
        if role == "tool":
            _match_results(text, due, grammar)
            continue
        if role != "assistant":
            raise ConversationRefused(
                f"A message of role {role!r}: only the assistant's and the tools' "
                "belong in a completion."
            )
        if due or turns and not (turns[-1].calls or turns[-1].error):
            raise ConversationRefused(
                f"The turn {text[:40]!r} follows an answer, or {len(due)} calls have "
                "no result."
            )
        turn = _turn(message, text, grammar)
        results = [(run_call(tools, call), call) for call in turn.calls]
        calls += [(call, result) for result, call in results]
        due = [*results, *([({"error": turn.error}, None)] if turn.error else [])]
        turns.append(turn)
    if due and segments[-1][0] == "tool":  # at the end all calls may be cut off
        raise ConversationRefused(
            f"{len(due)} calls have no result, and it ends there."
        )
    return Trace(tuple(segments), tuple(turns), tuple(calls))


def _turn(message, text, grammar):
    """A turn of the model, read: its calls are in the text or beside it."""
    turn = grammar.parse(text)
    if thought := message.get("reasoning_content"):
        turn = dataclasses.replace(turn, thought=thought)
    beside = message.get("tool_calls")
    if not beside:
        return turn
    if turn.calls or turn.error:
        raise ConversationRefused(f"Calls in the text and beside it: {text[:60]!r}.")
    try:
        if len(beside) > MOST_CALLS:
            raise Malformed(f"there are more than {MOST_CALLS} calls")
        calls = tuple(_call(**each["function"]) for each in beside)
    except Malformed as reason:
        return dataclasses.replace(turn, error=f"This is no call: {reason}.")
    return dataclasses.replace(turn, calls=calls)


def _call(name, arguments, **_):
    """A call whose arguments are a dict, or JSON of one."""
    if isinstance(arguments, str):
        arguments = read_json(arguments)[0]
    if not isinstance(arguments, dict):
        raise Malformed("the arguments are no object")
    return Call(name, arguments)


def _match_results(text, due, grammar):
    """Takes from `due` what a tool's message showed the model: one result, or all."""
    if not due:
        raise ConversationRefused(f"The tool's {text[:60]!r} answers no call.")
    ours = grammar.results(*map(list, zip(*due, strict=True)))
    if [text] == [message["content"] for message in ours]:
        due.clear()
        return
    result, _ = due.pop(0)
    value = _json(text)
    if isinstance(value, dict):
        fails = list(value) == ["error"]
    else:  # engines have their own words for a failed call
        fails = bool(re.match(r"\W*([\w.]*Error\b|error\b)", text, re.IGNORECASE))
    if value != result and text != str(result) and not ("error" in result and fails):
        raise ConversationRefused(
            f"The model was shown {text[:80]!r}, and the tool returns {result} here: it"
            " would be scored by what it did not see."
        )


def _json(text):
    """The value of JSON; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
