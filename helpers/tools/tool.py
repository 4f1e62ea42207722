"""Tools: their schemas, what runs when a model calls one, and conversations with calls.

A call comes from a model, so it is hostile input: its arguments are checked against the
tool's JSON schema before anything runs. What goes wrong, in the call or in the tool, is
a result with an "error" that the model can learn from; nothing is raised.
"""

import functools
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.tools.calls import Call, Verdict, strict_json

LONGEST_RESULT = 20_000  # characters of JSON
LONGEST_ERROR = 160  # characters of a message about arguments
FORM = """{"type": "function", "function": {"name": …, "description": …, \
"parameters": {"type": "object", "properties": …}}}"""


@dataclass(frozen=True)
class Tool:
    """Something that a model may call.

    Args:
      schema: {"type": "function", "function": {"name", "description", "parameters"}},
        as chat templates and servers take it.
      run: (**arguments) -> dict for JSON. It gets arguments that fit the schema, and is
        called from several threads; what it raises costs its call an error.
    """

    schema: dict
    run: Callable[..., dict]

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.schema["function"]["name"]

    def call(self, arguments: Any) -> dict:
        """The result of one call.

        Args:
          arguments: a dict, whatever is in it.
        Returns:
          What `run` gave, a dict of strict JSON; or {"error": what to do better}.
        """
        arguments, _ = _json_copy(arguments)
        if arguments is None:
            return {"error": f"{self.name}: the arguments are no JSON"}
        for problem in self.validator().iter_errors(arguments):
            where = ".".join(map(str, problem.absolute_path)) or self.name
            return {"error": f"{where}: {problem.message}"[:LONGEST_ERROR]}
        try:
            result, text = _json_copy(self.run(**arguments))
        except (Exception, SystemExit) as error:
            return {"error": f"the tool failed: {type(error).__name__}"}
        if not isinstance(result, dict) or len(text) > LONGEST_RESULT:
            return {"error": "the tool failed: its result is no JSON object, or long"}
        return result

    def validator(self):
        """What checks arguments; a ValueError where the schema is none of a tool."""
        return _validator(json.dumps(self.schema))


@functools.lru_cache(maxsize=100)
def _validator(text):
    from jsonschema import Draft202012Validator, SchemaError  # takes three seconds

    try:
        function = json.loads(text)["function"]
        parameters = function["parameters"] | {"type": "object"}
        names = [function["name"], *parameters["properties"]]
        if not all(re.fullmatch(r"\w{1,64}", name) for name in names):
            raise ValueError("names are letters, digits and _, 64 at most")
        Draft202012Validator.check_schema(parameters)
    except (KeyError, TypeError, ValueError, SchemaError) as error:
        raise ValueError(
            f"This is no schema of a tool: {error.args[0]}. Write {FORM}."
        ) from None
    properties = parameters["properties"]
    for name, schema in properties.items():
        # OpenAPI and chat templates write `int | None` so, and JSON Schema does not.
        if isinstance(schema, dict) and schema.get("nullable"):
            properties[name] = {"anyOf": [schema, {"type": "null"}]}
    return Draft202012Validator(parameters | {"additionalProperties": False})


def tool(function) -> Tool:
    """Makes a Tool of a function; usable as the decorator `@tool`.

    Its type hints and its docstring become the schema, so the docstring says what the
    function does and has an "Args:" section that describes each argument.
    """
    from transformers.utils import get_json_schema

    schema = get_json_schema(function)
    schema["function"].pop("return", None)
    return Tool(schema, function)


def schema_of(name: str, description: str, **arguments: dict) -> dict:
    """The schema of a tool whose arguments, {name: JSON schema}, are all required."""
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": list(arguments),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _json_copy(value):
    """(what a reader of the value's JSON has, the JSON); (None, "") if that differs."""
    try:
        text = strict_json(value)
        copy = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None, ""
    return (copy, text) if copy == value else (None, "")


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """{name: tool} of tools, in their order.

    Raises:
      ValueError: two have the same name, or one has no valid schema.
    """
    named: dict[str, Tool] = {}
    for each in tools:
        each.validator()
        if named.setdefault(each.name, each) is not each:
            raise ValueError(f"Two tools are called {each.name}: rename one of them.")
    return named


def run_call(tools: Iterable[Tool], call: Call) -> dict:
    """The result of a call, one of these tools or of none; see `Tool.call`."""
    named = by_name(tools)
    if chosen := named.get(call.name):
        return chosen.call(call.arguments)
    known = f"Call {' or '.join(named)}." if named else "Answer without."
    return {"error": f"There is no tool {ascii(call.name)[:60]}. {known}"}


def run_side_by_side(
    tools: Sequence[Tool],
    calls: Sequence[Call],
    seconds: float,
    most: int = sys.maxsize,
) -> list[dict]:
    """The results of calls that run at once, one per call.

    Args:
      tools: those that there are.
      calls: in any number.
      seconds: for all of them together; a late result is an error.
      most: that run at a time; 1: one after the other.
    """
    jobs = [functools.partial(run_call, tools, call) for call in calls]
    outcomes = side_by_side(jobs, seconds, most)
    late = {"error": f"no result within {seconds:g} s"}
    return [late if isinstance(x, TimeoutError) else x for x in outcomes]


def side_by_side(jobs: Sequence[Callable], seconds: float, most: int) -> list:
    """What each job returns, or the exception that it raised.

    Args:
      jobs: functions without arguments.
      seconds: for all of them together; a late one has a TimeoutError.
      most: jobs that run at a time.
    """
    outcomes: list[Any] = [
        TimeoutError(f"no result within {seconds:g} s") for _ in jobs
    ]
    deadline, waiting = time.monotonic() + seconds, iter([*enumerate(jobs)])

    def work():
        for index, job in waiting:  # all threads take from one iterator
            if time.monotonic() > deadline:
                return
            try:
                outcomes[index] = job()
            except (Exception, SystemExit) as error:
                outcomes[index] = error

    # Daemons: a job that hangs must not keep the process from ending.
    count = min(most, len(jobs))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(outcomes)  # late threads write into the other list


@dataclass(frozen=True)
class Trace:
    """One conversation after its prompt, as rollouts make it and rewards judge it.

    `segments` are (role, text), role "assistant" or "tool", in order; `turns` the
    `calls.Verdict` of each of the assistant's segments; `calls` (Call, result) of
    every well-formed call, the result a dict. `reward` is the sum of what the steps of
    its `environment` gave, `failure` what that raised, if it did.
    """

    segments: tuple
    turns: tuple
    calls: tuple = ()
    reward: float = 0.0
    environment: Any = field(default=None, compare=False, repr=False)
    failure: BaseException | None = None

    def __str__(self):
        return "\n".join(f"{role}: {text}" for role, text in self.segments)

    @property
    def messages(self):
        """The segments as messages, such as `rewards.completion_text` takes."""
        return [{"role": role, "content": text} for role, text in self.segments]

    @property
    def chat(self):
        """The messages as TRL parses them for rewards that read messages.

        Calls are "tool_calls", thoughts "reasoning_content", and neither is "content".
        """
        messages = self.messages
        replies = [message for message in messages if message["role"] == "assistant"]
        for message, turn in zip(replies, self.turns, strict=False):
            if turn.calls:
                message["tool_calls"] = [call.message for call in turn.calls]
            if not turn.error and (turn.calls or turn.thought):
                message |= {"content": turn.text, "reasoning_content": turn.thought}
        return messages

    @property
    def answer(self):
        """What the assistant says last; "" where the trace ends in a call."""
        if not self.turns or self.segments[-1][0] != "assistant":
            return ""
        last = self.turns[-1]
        return "" if last.calls or last.error else last.text

    @property
    def spoken(self):
        """All that the assistant says, thoughts and calls left out."""
        return "\n".join(turn.text for turn in self.turns)


def trace(grammar, texts, tools):
    """Runs a conversation of which the assistant's turns are known.

    Args:
      grammar: a `calls.Grammar`.
      texts: list of str, the assistant's turns; after one that makes no call, and
        whose call is not malformed, the conversation is over.
      tools: list of Tool, those that there are.
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
            messages = grammar.results(results, verdict.calls)
            segments += [("tool", message["content"]) for message in messages]
    return Trace(tuple(segments), tuple(turns), tuple(calls))
