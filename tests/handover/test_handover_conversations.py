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
SAID = {"role": "assistant", "content": "#### 402"}


def scores(completion, portions, grammar):
    """All nine rewards of a completion, as an engine calls them."""
    rewards = [getattr(fr, name) for name in NAMES if name != "thinks"]
    rewards.insert(NAMES.index("thinks"), fr.thinks(200))
    judged = [on_conversations(reward, grammar, [TOOL]) for reward in rewards]
    assert tuple(reward.__name__ for reward in judged) == NAMES
    return [f([""], [completion], portions=[portions], level=[1])[0] for f in judged]


def as_trl_has_it(texts):
    """Messages: calls beside the text, a result as Python writes a dict."""
    messages = []
    for text in texts:
        turn = TINY.parse(text)
        calls = [
            {"function": {"name": c.name, "arguments": c.arguments}} for c in turn.calls
        ]
        # It takes the thought out as well.
        said = {"role": "assistant", "content": turn.text, "tool_calls": calls}
        messages.append(said | {"reasoning_content": turn.thought})
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


def test_a_call_whose_result_nobody_told_is_a_call_without_an_answer():
    """Tunix and MaxText stop there: looked up, and never solved."""
    call = GEMMA3.render([Call("lookup_nutrition", {"food": "pizza", "grams": 150})])
    got = dict(zip(NAMES, scores(f"Pizza. {call}", PIZZA, GEMMA3), strict=True))
    assert (got["right_grams"], got["solved"], got["final_format"]) == (1, 0, 0)


def test_arguments_may_be_json_and_what_is_none_is_no_call():
    def called(arguments):
        call = {"function": {"name": "lookup_nutrition", "arguments": arguments}}
        return [{"role": "assistant", "content": "Hm.", "tool_calls": [call]}]

    right = as_trace(called('{"food": "pizza", "grams": 150}'), HERMES, [TOOL])
    assert right.calls[0][1] == lookup_nutrition("pizza", 150)
    for broken in ('{"food": ', "[1]", '{"a": NaN}'):
        assert as_trace(called(broken), HERMES, [TOOL]).turns[0].error
    five = as_trace(
        [
            called({"food": "pizza", "grams": 1})[0]
            | {"tool_calls": called({})[0]["tool_calls"] * 5}
        ],
        HERMES,
        [TOOL],
    )
    assert "more than 4 calls" in five.turns[0].error and not five.calls


@pytest.mark.parametrize("told", [None, "", "{}"])
def test_portions_that_are_missing_are_not_no_food(told):
    judged = on_conversations(fr.declined, TINY, [TOOL])
    assert judged([""], ["#### no food"], portions=["[]"]) == [1.0]
    with pytest.raises(ConversationRefused, match="portions are"):
        judged([""], ["#### no food"], portions=[told])


def test_errors_of_an_engine_have_its_own_words():
    asked = {"role": "assistant", "content": "Hm. <<lookup moon dust 5>>"}
    told = {"role": "tool", "content": "{'error': 'Tool failed.'}"}
    assert "error" in as_trace([asked, told, SAID], TINY, [TOOL]).calls[0][1]


ASKED = {"role": "assistant", "content": "<<lookup pizza 150>>"}
MOON = {"role": "assistant", "content": "Hm. <<lookup moon dust 5>>"}
TOLD = {"role": "tool", "content": str(lookup_nutrition("pizza", 150))}
CALL = {"function": {"name": TOOL.name, "arguments": {"food": "pizza", "grams": 150}}}
TWICE = {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}


@pytest.mark.parametrize(
    "messages, reason",
    [
        ([{"role": "user", "content": "more"}], "role 'user'"),
        ([SAID, SAID], "follows an answer"),
        ([{"role": "tool", "content": "{}"}], "answers no call"),
        (
            [
                {"role": "assistant", "content": "<<lookup pizza 150>>"},
                {"role": "tool", "content": "{'kcal': 1}"},
                SAID,
            ],
            "did not see",
        ),
        ([ASKED, SAID], "1 calls have no result"),
        ([TWICE, TOLD, SAID], "1 calls have no result"),
        ([TWICE, TOLD], "1 calls have no result, and it ends"),
        (
            [MOON, {"role": "tool", "content": "no error: kcal 402"}, SAID],
            "did not see",
        ),
        ([MOON, {"role": "tool", "content": '{"error": 1, "kcal": 2}'}], "did not see"),
        (
            [
                {
                    "role": "assistant",
                    "content": "<<lookup pizza 150>>",
                    "tool_calls": [{"function": {"name": "x", "arguments": {}}}],
                }
            ],
            "and beside it",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(messages, reason):
    with pytest.raises(ConversationRefused, match=reason):
        as_trace(messages, TINY, [TOOL])
