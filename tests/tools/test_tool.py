"""Tools: schemas, hostile arguments, results that are JSON."""

import importlib.util
import json
import math
import pathlib
import re
import sys
from typing import Literal

import pytest
import toy_tools
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tools.calls import Call
from helpers.tools.nutrition import SCHEMA, TINY, TOOL
from helpers.tools.tool import (
    LONGEST_RESULT,
    Tool,
    by_name,
    run_call,
    schema_of,
    tool,
    trace,
)


def tool_of(kinds, run=lambda **given: {"given": given}, required=None):
    schema = schema_of("toy", "A toy.", **kinds)
    if required is not None:
        schema["function"]["parameters"]["required"] = required
    return Tool(schema, run)


KINDS = {
    "text": {"type": "string", "minLength": 2, "maxLength": 5},
    "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
    "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
}
FITS_NOT = {
    "text": ["a", "abcdef", 7, None, ["ab"], b"ab", "a\ud800"],
    "count": [0, 10, 1.5, True, "3", 10**5000, math.nan, math.inf],
    "days": [(1, 2), "123", [1] * 4, [1, "2"]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_do_not_fit_are_never_run(kind):
    ran = []
    refusing = tool_of({kind: KINDS[kind]}, run=lambda **given: ran.append(given))
    for value in FITS_NOT[kind]:
        (error,) = refusing.call({kind: value}).values()
        assert error.startswith(("toy: ", kind)) and len(error) <= 160
    assert not ran


@pytest.mark.parametrize("given", [None, [], "text", {"x": 1}, {1: 2}, {"text": "ab"}])
def test_missing_and_further_arguments_are_refused(given):
    two = tool_of({name: KINDS[name] for name in ("text", "count")})
    assert list(two.call(given)) == ["error"]
    assert two.call({"text": "ab"})["error"] == "toy: 'count' is a required property"
    optional = tool_of({name: KINDS[name] for name in ("text", "count")}, required=[])
    assert optional.call({"text": "ab"}) == {"given": {"text": "ab"}}


@pytest.mark.parametrize(
    "schema",
    [
        *(None, {}, {"type": "function", "function": {"name": "toy"}}),
        {"function": {"name": "toy", "parameters": {"type": "string"}}},
        *(schema_of("rm -rf", ""), schema_of("x" * 65, "")),
        *(schema_of("x", "", **{"x y": {}}), schema_of("x", "", x={"type": "strange"})),
    ],
)
def test_what_is_no_schema_of_a_function_is_refused(schema):
    with pytest.raises(ValueError, match="no schema of a tool.*Write"):
        by_name([Tool(schema, lambda: {})])


@tool
def to_grams(ounces: float, unit: Literal["oz", "lb"] = "oz") -> dict:
    """
    A weight in grams.

    Args:
        ounces: The weight.
        unit: Its unit.

    Returns:
        The grams.
    """
    return {"grams": round(28.35 * ounces * {"oz": 1, "lb": 16}[unit])}


def test_a_decorated_function_is_a_tool_by_its_hints_and_docstring():
    function = to_grams.schema["function"]
    assert function["name"] == "to_grams"
    assert function["description"] == "A weight in grams."
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "ounces": {"type": "number", "description": "The weight."},
            "unit": {
                "type": "string",
                "enum": ["oz", "lb"],
                "description": "Its unit.",
            },
        },
        "required": ["ounces"],
    }
    assert to_grams.call({"ounces": 5}) == {"grams": 142}
    assert "not one of" in to_grams.call({"ounces": 5, "unit": "kg"})["error"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


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


def test_a_tool_that_changes_its_arguments_does_not_change_the_call():
    arguments = {"numbers": [3, 1]}
    schema = {"numbers": {"type": "array", "items": {"type": "integer"}}}
    sorts = tool_of(schema, lambda numbers: {"sorted": numbers.sort() or numbers})
    assert sorts.call(arguments) == {"sorted": [1, 3]}
    assert arguments == {"numbers": [3, 1]}


def test_a_tool_that_raises_costs_an_error_without_its_words():
    def fails():
        raise RuntimeError("the password is 1234")

    assert tool_of({}, fails).call({}) == {"error": "the tool failed: RuntimeError"}
    leaving = tool_of({}, lambda: sys.exit(1))
    assert leaving.call({}) == {"error": "the tool failed: SystemExit"}


def test_an_unknown_tool_is_an_error_with_those_that_there_are():
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
    assert wrong.startswith("to_grams: ")
    assert len(run_call(tools, Call("x" * 10**6))["error"]) < 150


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Two tools are called lookup_nutrition"):
        by_name([TOOL, Tool(SCHEMA, lambda food, grams: {})])


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(list(KINDS)), anything), anything)
def test_whatever_is_run_fits_and_every_result_is_json(given, result):
    ran = []

    def run(**arguments):
        ran.append(arguments)
        return result

    got = tool_of(KINDS, run, required=[]).call(given)
    assert json.loads(json.dumps(got, allow_nan=False)) == got and isinstance(got, dict)
    assert ran == [given] or list(got) == ["error"]


def test_the_tool_of_contributing_works(tmp_path):
    page = (pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(from helpers.tools.tool .*?)```", page, re.S)
    (tmp_path / "contributed.py").write_text(code)
    spec = importlib.util.spec_from_file_location("c", tmp_path / "contributed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.to_grams.call({"ounces": 5}) == {"grams": 142}
    assert "error" in module.to_grams.call({"ounces": "5"})


# --- traces ---

PHO = Call("lookup_nutrition", {"food": "pho", "grams": 100})
RESULT = {"kcal": 55}


def look_up(food, grams):
    assert {"food": food, "grams": grams} == PHO.arguments
    return RESULT


TOOLS = [toy_tools.make(PHO.name, look_up, food="string", grams="number")]


def test_a_trace_has_the_conversation_in_order():
    done = trace(TINY, ["Hm. <<lookup 1>>", "<<lookup pho 100>>", "#### 55"], TOOLS)
    assert [role for role, _ in done.segments] == ["assistant", "tool"] * 2 + [
        "assistant"
    ]
    assert done.segments[1][1] == "error" and done.segments[3][1] == "kcal 55"
    assert done.calls == (
        (Call("lookup_nutrition", {"food": "pho", "grams": 100}), RESULT),
    )
    assert done.answer == "#### 55" and done.spoken == "Hm.\n\n#### 55"


def test_a_trace_that_ends_in_a_call_has_no_answer():
    done = trace(TINY, ["Hm. <<lookup pho 100>>"], TOOLS)
    assert done.answer == "" and done.spoken == "Hm."
    assert trace(TINY, [], TOOLS).answer == trace(TINY, ["<<"], TOOLS).answer == ""
