"""Tools: what a model is told of one, and what runs when it calls.

A call comes from a model, so it is hostile input: its arguments are held to the tool's
schema before anything runs. What goes wrong, in the call or in the tool, is a result
with an "error" that the model can learn from; nothing is raised.
"""

import copy
import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.tools.calls import Call, Verdict

LONGEST_RESULT = 20_000  # characters of JSON


@dataclass(frozen=True)
class Tool:
    """Something that a model may call.

    Args:
      schema: {"type": "function", "function": {"name", "description", "parameters"}},
        as chat templates and servers take it; for "parameters" see `check_schema`.
      run: (**arguments) -> dict for JSON. It gets arguments that fit the schema, and is
        called from several threads; what it raises costs its call an error.

    Raises:
      ValueError: the schema is another, or says what is not checked here.
    """

    schema: dict
    run: Callable[..., dict]

    def __post_init__(self):
        check_schema(self.schema)

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
        if error := problem(self.name, parameters, arguments):
            return {"error": error}
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


@dataclass(frozen=True)
class Trace:
    """One conversation after its prompt, as rollouts make it and rewards judge it.

    `segments` are (role, text), role "assistant" or "tool", in order; `turns` the
    `calls.Verdict` of each of the assistant's segments; `calls` (Call, result) of
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
      grammar: a `calls.Grammar`.
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


LONGEST_TEXT = 2_000  # characters, where there is no maxLength
MOST_ITEMS = 100  # where there is no maxItems

_ANY = {"type", "description", "title", "default", "examples", "enum"}
_BOUNDS = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
_OBJECT = {"properties", "required", "additionalProperties"}
_KEYWORDS = {
    "string": {"minLength", "maxLength"},
    "number": _BOUNDS,
    "integer": _BOUNDS,
    "boolean": set(),
    "null": set(),
    "array": {"items", "minItems", "maxItems"},
    "object": _OBJECT,
}
_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def check_schema(schema):
    """Refuses the schema of a function that cannot be held to.

    Args:
      schema: {"type": "function", "function": {"name", "description", "parameters"}}.
    Raises:
      ValueError: it has another form, or a keyword that is not checked here.
    """
    function = schema.get("function") if isinstance(schema, dict) else None
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    if function is None or not named or schema.get("type") != "function":
        raise ValueError(
            'a tool\'s schema is {"type": "function", "function": {"name": ..., '
            f'"description": ..., "parameters": ...}}}}, not {schema!r:.200}.'
        )
    name, parameters = function["name"], function.get("parameters")
    _check_name(name)
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise ValueError(f'the parameters of {name} are no {{"type": "object", ...}}.')
    _check(parameters, name)


def _check(schema, where):
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        raise ValueError(f"{where} has no type of {', '.join(_KEYWORDS)}: {schema!r}.")
    if unknown := sorted(set(schema) - _ANY - _KEYWORDS[kind]):
        raise ValueError(
            f"{where} is {kind} with {', '.join(unknown)}, which is not checked here: "
            "check it where the tool runs, and say it in the description."
        )
    if schema.get("additionalProperties", False) is not False:
        raise ValueError(f"{where} takes any further properties: name them all.")
    properties = schema.get("properties", {})
    if missing := set(schema.get("required", ())) - set(properties):
        raise ValueError(f"{where} requires {sorted(missing)}, which it does not name.")
    for name, inner in properties.items():
        _check_name(name)
        _check(inner, f"{name} of {where}")
    if kind == "array":
        _check(schema.get("items"), f"an item of {where}")


def _check_name(name):
    """Refuses a name that not every family's grammar can write."""
    if not (name.isidentifier() and name.isascii() and len(name) <= 64):
        raise ValueError(f"a name is up to 64 letters, digits and _, not {name!r:.80}.")


def problem(name, schema, value):
    """What is wrong with a value, in words for the model that sent it; None: nothing.

    Args:
      name: of the value, to begin the sentence with.
      schema: one that `check` has passed.
      value: anything.
    """
    kind = schema["type"]
    if kind == "object":
        return _object_problem(name, schema, value)
    if "enum" in schema:
        same = [value == v and type(value) is type(v) for v in schema["enum"]]
        listed = ", ".join(map(str, schema["enum"]))
        return None if any(same) else f"{name} must be one of {listed}."
    if not _FITS[kind](schema, value):
        return f"{name} must be {_SAID[kind](schema)}."
    if kind == "array":
        items = enumerate(value)
        found = (problem(f"{name}[{i}]", schema["items"], item) for i, item in items)
        return next(filter(None, found), None)
    return None


def _object_problem(name, schema, value):
    properties, required = schema.get("properties", {}), schema.get("required", ())
    keys = set(value) if isinstance(value, dict) else None
    if keys is None or not set(required) <= keys <= set(properties):
        return f"{name} takes {_taken(list(properties), list(required))}."
    found = (problem(key, properties[key], member) for key, member in value.items())
    return next(filter(None, found), None)


def _taken(names, required):
    """ "exactly two arguments, food and grams", or what is needed and what may come."""
    optional = [name for name in names if name not in required]
    if optional:
        needed = f"{_listed(required)}, and may take " if required else "nothing but "
        return needed + _listed(optional)
    count = len(required)
    numeral = _NUMERALS[count] if count < len(_NUMERALS) else str(count)
    noun = f"exactly {numeral} argument{'s' * (count != 1)}"
    return f"{noun}, {_listed(required)}" if required else "no arguments"


def _listed(names):
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _fits_text(schema, value):
    if not isinstance(value, str):
        return False
    longest = schema.get("maxLength", LONGEST_TEXT)
    if not schema.get("minLength", 0) <= len(value) <= longest:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _fits_number(schema, value):
    whole = schema["type"] == "integer"
    number = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, number):
        return False
    return (
        abs(value) <= sys.float_info.max  # neither infinite nor NaN
        and value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and not value <= schema.get("exclusiveMinimum", -float("inf"))
        and not value >= schema.get("exclusiveMaximum", float("inf"))
    )


def _fits_list(schema, value):
    most = schema.get("maxItems", MOST_ITEMS)
    return isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= most


def _said_text(schema):
    least, most = schema.get("minLength", 0), schema.get("maxLength", LONGEST_TEXT)
    return f"text of {f'{least} to' if least else 'up to'} {most} letters"


def _said_number(schema):
    words = {"minimum": "at least", "exclusiveMinimum": "above"}
    words |= {"maximum": "up to", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    return f"{' '.join((kind, ' and '.join(bounds))).strip()}, without quotes"


def _said_list(schema):
    least, most = schema.get("minItems", 0), schema.get("maxItems", MOST_ITEMS)
    return f"a list of {f'{least} to' if least else 'up to'} {most}"


_FITS = {
    "string": _fits_text,
    "number": _fits_number,
    "integer": _fits_number,
    "boolean": lambda schema, value: isinstance(value, bool),
    "null": lambda schema, value: value is None,
    "array": _fits_list,
}
_SAID = {
    "string": _said_text,
    "number": _said_number,
    "integer": _said_number,
    "boolean": lambda schema: "true or false",
    "null": lambda schema: "null",
    "array": _said_list,
}
