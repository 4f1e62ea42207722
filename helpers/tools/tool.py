"""Tools: what a model is told of one, and what runs when it calls.

A call comes from a model, so it is hostile input: its arguments are held to the tool's
schema before anything runs. What goes wrong, in the call or in the tool, is a result
with an "error" that the model can learn from; nothing is raised.
"""

import copy
import functools
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.tools import tool_schema
from helpers.tools.tool_calls import Call

LONGEST_RESULT = 20_000  # characters of JSON


@dataclass(frozen=True)
class Tool:
    """Something that a model may call.

    Args:
      schema: {"type": "function", "function": {"name", "description", "parameters"}},
        as chat templates and servers take it; for "parameters" see `tool_schema`.
      run: (**arguments) -> dict for JSON. It gets arguments that fit the schema, and is
        called from several threads; what it raises costs its call an error.

    Raises:
      ValueError: the schema is another, or says what is not checked here.
    """

    schema: dict
    run: Callable[..., dict]

    def __post_init__(self):
        tool_schema.check(self.schema)

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
        parameters = self.schema["function"]["parameters"]
        if problem := tool_schema.problem(self.name, parameters, arguments):
            return {"error": problem}
        try:
            result = self.run(**copy.deepcopy(arguments))  # the trace keeps its own
        except (Exception, SystemExit) as error:
            return {"error": f"the tool failed: {type(error).__name__}"}
        return _as_json(result)


def _as_json(result):
    """The result as whoever reads its JSON has it; an error where that is another."""
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
        text.encode()
        read = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {"error": "the tool failed: its result is no JSON"}
    if not isinstance(result, dict) or read != result:
        return {"error": "the tool failed: its result is no JSON object"}
    if len(text) > LONGEST_RESULT:
        return {"error": "the tool failed: its result is too long"}
    return read


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """{name: tool} of tools, in their order.

    Raises:
      TypeError: one is no Tool.
      ValueError: two have the same name.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"{tool!r} is no tool: pass a list of Tool(schema, run).")
        if named.setdefault(tool.name, tool) is not tool:
            raise ValueError(f"Two tools are called {tool.name}: rename one of them.")
    return named


def run_call(tools: Iterable[Tool], call: Call) -> dict:
    """The result of a call, one of these tools or of none; see `Tool.call`."""
    named = by_name(tools)
    if tool := named.get(call.name):
        return tool.call(call.arguments)
    known = f"Call {' or '.join(named)}." if named else "Answer without."
    return {"error": f"There is no tool {ascii(call.name)[:60]}. {known}"}


def run_side_by_side(
    tools: Iterable[Tool], calls: Sequence[Call], seconds: float
) -> list[dict]:
    """The results of calls that run at once, one per call.

    Args:
      tools: those that there are.
      calls: in any number.
      seconds: for all of them together; who is late gets an error.
    """
    tools = by_name(tools).values()
    results = [{"error": f"no result within {seconds:g} s"} for _ in calls]

    def run(index, call):
        results[index] = run_call(tools, call)

    # Daemons: a tool that hangs must not keep the process from ending.
    threads = [
        threading.Thread(target=functools.partial(run, *item), daemon=True)
        for item in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(results)  # who comes later writes into the other list
