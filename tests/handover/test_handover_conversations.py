"""The food rewards of engines' conversations: the numbers written by hand."""

import json

import pytest
from food_conversations import CASES, NAMES, PIZZA

from helpers.handover.conversations import (
    ConversationRefused,
    as_trace,
    on_conversations,
)
from helpers.rewards import food_rewards as fr
from helpers.tools.calls import Call
from helpers.tools.grammars import GEMMA3, HERMES
from helpers.tools.nutrition import TINY, TOOL, lookup_nutrition
from helpers.tools.tool import trace

WELL_FORMED = [
    name
    for name, (_, texts, _) in CASES.items()
    if not any(TINY.parse(text).error for text in texts)
]


def scores(completion, portions, grammar):
    """All nine rewards of a completion, as an engine calls them."""
    rewards = [getattr(fr, name) for name in NAMES]
    wrapped = [on_conversations(reward, grammar, [TOOL]) for reward in rewards]
    assert tuple(reward.__name__ for reward in wrapped) == NAMES
    return [f([""], [completion], portions=[portions], level=[1])[0] for f in wrapped]


def as_trl_has_it(texts):
    """Messages: calls beside the text, a result as Python writes a dict."""
    messages = []
    for text in texts:
        turn = TINY.parse(text)
        calls = [
            {"function": {"name": c.name, "arguments": c.arguments}} for c in turn.calls
        ]
        # It takes the thought out as well.
        message = {"role": "assistant", "content": turn.text, "tool_calls": calls}
        messages.append(message | {"reasoning_content": turn.thought})
        for call in turn.calls:
            content = str(lookup_nutrition(**call.arguments))
            messages.append({"role": "tool", "name": call.name, "content": content})
    return messages


@pytest.mark.parametrize("name", WELL_FORMED)
def test_messages_with_calls_beside_them_earn_what_is_written(name):
    portions, texts, expected = CASES[name]
    got = scores(as_trl_has_it(texts), portions, HERMES)
    assert got == pytest.approx(list(expected))


@pytest.mark.parametrize("name", CASES)
def test_our_own_messages_earn_what_is_written(name):
    portions, texts, expected = CASES[name]
    done = trace(TINY, texts, [TOOL])
    assert as_trace(done.messages, TINY, [TOOL]) == done
    got = scores(done.messages, json.dumps(portions), TINY)  # as MaxText has columns
    assert got == pytest.approx(list(expected))


def test_a_call_without_a_result_is_scored_as_a_call_without_an_answer():
    """Tunix and MaxText stop there: looked up, and never solved."""
    call = GEMMA3.render([Call("lookup_nutrition", {"food": "pizza", "grams": 150})])
    got = dict(zip(NAMES, scores(f"Pizza. {call}", PIZZA, GEMMA3), strict=True))
    assert (got["right_grams"], got["solved"], got["final_format"]) == (1, 0, 0)


def assistant(content, *calls):
    """A turn; calls beside it are (name, arguments)."""
    calls = [{"function": {"name": name, "arguments": a}} for name, a in calls]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(content):
    return {"role": "tool", "content": str(content)}


def test_arguments_may_be_json_and_what_is_none_is_no_call():
    def called(*arguments):
        turn = assistant("Hm.", *((TOOL.name, each) for each in arguments))
        return as_trace([turn], HERMES, [TOOL])

    right = called('{"food": "pizza", "grams": 150}')
    assert right.calls[0][1] == lookup_nutrition("pizza", 150)
    for broken in ('{"food": ', "[1]", '{"a": NaN}'):
        assert called(broken).turns[0].error
    five = called(*[{}] * 5)
    assert "more than 4 calls" in five.turns[0].error and not five.calls


@pytest.mark.parametrize("portions", [None, "", "{}"])
def test_portions_that_are_missing_are_not_no_food(portions):
    declined = on_conversations(fr.declined, TINY, [TOOL])
    assert declined([""], ["#### no food"], portions=["[]"]) == [1.0]
    with pytest.raises(ConversationRefused, match="portions are"):
        declined([""], ["#### no food"], portions=[portions])


def test_errors_of_an_engine_have_its_own_words():
    turns = [MOON, tool("{'error': 'Tool failed.'}"), END]
    assert "error" in as_trace(turns, TINY, [TOOL]).calls[0][1]


PIZZA_CALL = (TOOL.name, {"food": "pizza", "grams": 150})
CALL, MOON, END = map(
    assistant, ("<<lookup pizza 150>>", "Hm. <<lookup moon dust 5>>", "#### 402")
)
RESULT = tool(lookup_nutrition("pizza", 150))
TWICE = assistant("", PIZZA_CALL, PIZZA_CALL)


@pytest.mark.parametrize(
    "messages, reason",
    [
        ([{"role": "user", "content": "more"}], "role 'user'"),
        ([END, END], "follows an answer"),
        ([tool({})], "answers no call"),
        ([CALL, tool({"kcal": 1}), END], "did not see"),
        ([CALL, END], "1 calls have no result"),
        ([TWICE, RESULT, END], "1 calls have no result"),
        ([TWICE, RESULT], "1 calls have no result, and it ends"),
        ([MOON, tool("no error: kcal 402"), END], "did not see"),
        ([MOON, tool('{"error": 1, "kcal": 2}')], "did not see"),
        ([assistant("<<lookup pizza 150>>", PIZZA_CALL)], "and beside it"),
    ],
)
def test_what_cannot_be_scored_is_refused(messages, reason):
    with pytest.raises(ConversationRefused, match=reason):
        as_trace(messages, TINY, [TOOL])
