"""Tools: schemas that can be kept, hostile arguments, results that are JSON."""

import json
import math
import pathlib
import re
import sys

import pytest
import toy_tools
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tools import tool as tool_schema
from helpers.tools.calls import Call
from helpers.tools.nutrition import SCHEMA, TOOL
from helpers.tools.tool import LONGEST_RESULT, Tool, by_name, run_call, run_side_by_side

KINDS = {
    "text": {"type": "string", "minLength": 2, "maxLength": 5},
    "any_text": {"type": "string"},
    "unit": {"type": "string", "enum": ["kg", "g"]},
    "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
    "sure": {"type": "boolean"},
    "nothing": {"type": "null"},
    "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    "place": {
        "type": "object",
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        "required": ["x"],
    },
}


def tool_of(kinds, run=lambda **given: {"given": given}, required=None):
    parameters = {"type": "object", "properties": kinds, "additionalProperties": False}
    parameters["required"] = list(kinds) if required is None else required
    function = {"name": "toy", "description": "A toy.", "parameters": parameters}
    return Tool({"type": "function", "function": function}, run)


FITS = [
    ("text", ["ab", "abcde", "éé"]),
    ("any_text", ["", "x" * 2000, "\n\u202e"]),
    ("unit", ["kg", "g"]),
    ("share", [0, 0.0, 0.5, 1 - 1e-9]),
    ("count", [1, 9]),
    ("sure", [True, False]),
    ("nothing", [None]),
    ("days", [[], [1, 2, 3]]),
    ("place", [{"x": 1}, {"x": 0.5, "y": -1}]),
]
FITS_NOT = [
    ("text", ["a", "abcdef", 7, None, ["ab"], b"ab", "a\ud800"], "text of 2 to 5"),
    ("any_text", ["x" * 2001, 1.5], "text of up to 2000 letters"),
    ("unit", ["KG", "", "kg ", 1, None], "one of kg, g"),
    ("share", [1, 1.0, -1e-9, True, "0.5", math.nan, math.inf], "at least 0 and below"),
    ("share", [10**400, -(10**400), 1j, None, [0.5]], "a number"),
    ("count", [0, 10, 1.5, 2.0, True, "3", 10**400], "a whole number above 0 and up"),
    ("sure", [0, 1, "true", None], "true or false"),
    ("nothing", [0, "", False], "null"),
    ("days", [(1, 2), {"1": 2}, "123", [1] * 4], "a list of up to 3"),
    ("days", [[1, "2"], [1, 2.5]], r"days\[1\] must be a whole number"),
    ("place", [{}, {"y": 1}, {"x": 1, "z": 1}, [1]], "place takes x, and may take y"),
    ("place", [{"x": "1"}], "x must be a number"),
]


@pytest.mark.parametrize("kind, values", FITS)
def test_arguments_that_fit_are_run_as_they_are(kind, values):
    for value in values:
        assert tool_of({kind: KINDS[kind]}).call({kind: value}) == {
            "given": {kind: value}
        }


@pytest.mark.parametrize("kind, values, words", FITS_NOT)
def test_arguments_that_do_not_fit_are_refused_and_never_run(kind, values, words):
    ran = []
    tool = tool_of({kind: KINDS[kind]}, run=lambda **given: ran.append(given))
    for value in values:
        (error,) = tool.call({kind: value}).values()
        with pytest.raises(ValueError, match=words):
            raise ValueError(error)
        assert len(error) < 120
    assert not ran


@pytest.mark.parametrize("given", [None, [], "text", {"x": 1}, {1: 2}, {"text": "ab"}])
def test_missing_and_further_arguments_are_refused(given):
    tool = tool_of({name: KINDS[name] for name in ("text", "count")})
    assert tool.call(given) == {
        "error": "toy takes exactly two arguments, text and count."
    }


def test_what_may_be_left_out_is_said_and_may_be_left_out():
    tool = tool_of({n: KINDS[n] for n in ("text", "count")}, required=["text"])
    assert tool.call({"text": "ab"}) == {"given": {"text": "ab"}}
    assert tool.call({})["error"] == "toy takes text, and may take count."
    assert tool_of({}).call({"x": 1})["error"] == "toy takes no arguments."


def whole(**function):
    return {"type": "function", "function": {"name": "toy", **function}}


def of(properties=(), **more):
    parameters = {"type": "object", "properties": dict(properties), **more}
    return whole(parameters=parameters)


@pytest.mark.parametrize(
    "schema, words",
    [
        (None, 'a tool\'s schema is {"type": "function"'),
        ({}, "a tool's schema is"),
        ({"type": "function", "function": {}}, "a tool's schema is"),
        ({"name": "toy", "parameters": {}}, "a tool's schema is"),
        (whole(), "parameters of toy"),
        (whole(parameters={"type": "string"}), "parameters of toy"),
        (whole(name="rm -rf"), "a name is up to 64 letters"),
        (whole(name="x" * 65), "a name is up to 64 letters"),
        (of({"x y": {"type": "null"}}), "a name is up to 64 letters"),
        (of({"x": {"type": "string", "pattern": "a+"}}), "pattern, which is not"),
        (of({"x": {"type": "string", "maximum": 3}}), "maximum, which is not checked"),
        (of({"x": {"anyOf": []}}), "x of toy has no type"),
        (of({"x": {"type": ["string", "null"]}}), "x of toy has no type"),
        (of({"x": {"type": "array"}}), "an item of x of toy has no type"),
        (of({"x": {"type": "object", "additionalProperties": True}}), "name them all"),
        (of(required=["y"]), "requires .'y'., which it does not name"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_schema_that_would_not_be_kept_is_refused(schema, words):
    with pytest.raises(ValueError, match=words):
        Tool(schema, lambda: {})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(list(KINDS)), anything), anything)
def test_whatever_is_run_is_what_the_schema_says(given, result):
    """Held to jsonschema, which the course does without, and stricter than it."""
    jsonschema = pytest.importorskip("jsonschema")
    seen = []

    def run(**arguments):
        seen.append(arguments)
        return result

    tool = tool_of(KINDS, run, required=[])
    got = tool.call(given)
    assert json.loads(json.dumps(got, allow_nan=False)) == got and isinstance(got, dict)
    if seen:
        jsonschema.validate(seen[0], tool.schema["function"]["parameters"])
        assert seen == [given]
    else:
        assert list(got) == ["error"]


@pytest.mark.parametrize(
    "result",
    [{"kcal": math.nan}, {"kcal": -math.inf}, {"x": [math.nan]}, {"x": {1, 2}}, {2: 3}]
    + [None, 7, "402", [], {"x": (1,)}, {"x": "\ud800"}, {"x": 1j}, {"x": b""}]
    + [{"x": "9" * LONGEST_RESULT}],
    ids=lambda result: str(result)[:20],
)
def test_a_result_that_is_no_strict_json_is_an_error(result):
    (error,) = tool_of({}, lambda: result).call({}).values()
    assert error.startswith("the tool failed: its result is")


def test_a_result_that_refers_to_itself_or_is_too_deep_is_an_error():
    round_, deep = {}, {}
    round_["x"] = round_
    for _ in range(sys.getrecursionlimit() * 3):
        deep = {"x": deep}
    for result in (round_, deep):
        assert list(tool_of({}, lambda result=result: result).call({})) == ["error"]


def test_a_result_is_the_tools_own_no_more():
    """A tool that changes what it gave does not change what was told."""
    kept = {"days": [1]}
    got = tool_of({}, lambda: kept).call({})
    kept["days"].append(2)
    assert got == {"days": [1]}


def test_a_tool_that_changes_its_arguments_does_not_change_the_call():
    arguments = {"numbers": [3, 1]}
    schema = {"numbers": {"type": "array", "items": {"type": "integer"}}}
    tool = tool_of(schema, lambda numbers: {"sorted": numbers.sort() or numbers})
    assert tool.call(arguments) == {"sorted": [1, 3]}
    assert arguments == {"numbers": [3, 1]}


def test_a_tool_that_raises_costs_an_error_without_its_words():
    def fails():
        raise RuntimeError("the password is 1234")

    assert tool_of({}, fails).call({}) == {"error": "the tool failed: RuntimeError"}
    leaving = tool_of({}, lambda: sys.exit(1))
    assert leaving.call({}) == {"error": "the tool failed: SystemExit"}


def test_a_tool_that_is_not_there_is_told_with_those_that_are():
    tools = [TOOL, toy_tools.GRAMS]
    pizza = {"food": "pizza", "grams": 150}
    assert run_call(tools, Call(TOOL.name, pizza))["kcal"] == 402
    ounces = {"amount": 10, "unit": "ounces"}
    assert run_call(tools, Call("to_grams", ounces)) == {"grams": 283}
    assert run_call(tools, Call("eval", pizza)) == {
        "error": "There is no tool 'eval'. Call lookup_nutrition or to_grams."
    }
    assert run_call([], Call("eval"))["error"].endswith("Answer without.")
    wrong = run_call(tools, Call("to_grams", pizza))["error"]
    assert wrong == "to_grams takes exactly two arguments, amount and unit."
    assert len(run_call(tools, Call("x" * 10**6))["error"]) < 150


def test_two_tools_of_one_name_and_what_is_no_tool_are_refused():
    with pytest.raises(ValueError, match="Two tools are called lookup_nutrition"):
        by_name([TOOL, Tool(SCHEMA, lambda food, grams: {})])
    for wrong in (lambda: {}, SCHEMA, "lookup_nutrition"):
        with pytest.raises(TypeError, match=r"pass a list of Tool\(schema, run\)"):
            run_side_by_side([wrong], [Call("x")], 1)


def test_the_nutrition_tool_is_one_and_its_schema_is_kept():
    tool_schema.check_schema(SCHEMA)
    assert by_name([TOOL]) == {"lookup_nutrition": TOOL}


def test_the_tool_of_contributing_works():
    page = (pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(
        r"```python\n(from helpers.tools import Tool\n.*?)```", page, re.S
    )
    names = {}
    exec(code, names)
    assert names["TOOL"].call({"ounces": 5}) == {"grams": 142}
    assert "above 0 and up to 1000" in names["TOOL"].call({"ounces": 0})["error"]
