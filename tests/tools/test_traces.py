"""Traces: what a conversation with tools is made of."""

import pytest
import toy_tools

from helpers.tools.calls import HERMES, Call, Verdict
from helpers.tools.nutrition import TINY
from helpers.tools.tool import trace

PHO = Call("lookup_nutrition", {"food": "pho", "grams": 100})
FOUND = {"kcal": 55}


def look_up(food, grams):
    assert {"food": food, "grams": grams} == PHO.arguments
    return FOUND


TOOLS = [toy_tools.make(PHO.name, look_up, food="string", grams="number")]


def test_a_trace_has_the_conversation_in_order():
    done = trace(TINY, ["Hm. <<lookup 1>>", "<<lookup pho 100>>", "#### 55"], TOOLS)
    assert [role for role, _ in done.segments] == ["assistant", "tool"] * 2 + [
        "assistant"
    ]
    assert done.segments[1][1] == "error" and done.segments[3][1] == "kcal 55"
    assert done.calls == (
        (Call("lookup_nutrition", {"food": "pho", "grams": 100}), FOUND),
    )
    assert done.answer == "#### 55" and done.said == "Hm.\n\n#### 55"


def test_a_trace_that_ends_in_a_call_has_no_answer():
    done = trace(TINY, ["Hm. <<lookup pho 100>>"], TOOLS)
    assert done.answer == "" and done.said == "Hm."
    assert trace(TINY, [], TOOLS).answer == trace(TINY, ["<<"], TOOLS).answer == ""


def test_after_an_answer_the_conversation_is_over():
    with pytest.raises(ValueError, match="follows an answer"):
        trace(TINY, ["#### 55", "#### 56"], TOOLS)


def test_several_results_are_several_tool_turns_where_the_template_has_them():
    done = trace(HERMES, [HERMES.render([PHO, PHO]), "#### 110"], TOOLS)
    told = ("tool", '{"kcal": 55}')
    assert done.segments[1:] == (told, told, ("assistant", "#### 110"))
    assert done.turns == (Verdict((PHO, PHO)), Verdict(text="#### 110"))
    assert done.messages[1] == {"role": "tool", "content": '{"kcal": 55}'}
