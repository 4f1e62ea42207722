"""Rewards for tool conversations: a truth table of hand-written ones, with cheats."""

import dataclasses
import math

import pytest
import toy_tools
from food_conversations import CASES, NAMES, PIZZA

from helpers.rewards import food_rewards as fr
from helpers.rewards.functions import RewardSet
from helpers.tools.calls import Call
from helpers.tools.grammars import HERMES
from helpers.tools.nutrition import TINY, TOOL
from helpers.tools.tool import trace


@pytest.mark.parametrize("name", CASES)
def test_the_truth_table(name):
    portions, texts, expected = CASES[name]
    done = trace(TINY, texts, [TOOL])
    scores = {
        reward: getattr(fr, reward)([""], [done], portions=[portions], level=[1])
        for reward in NAMES
    }
    assert scores == dict(
        zip(NAMES, ([pytest.approx(e)] for e in expected), strict=True)
    )


def test_what_is_solved_earns_more_than_any_cheat():
    totals = {"right": {}, "wrong": {}}
    reward = RewardSet(fr.WEIGHTS)
    for name, (portions, texts, expected) in CASES.items():
        done = trace(TINY, texts, [TOOL])
        (total,), means = reward([""], [done], portions=[portions])
        assert set(means) == {f"reward/{name}" for name in NAMES}
        totals["right" if expected[0] else "wrong"][name] = total
    assert min(totals["right"].values()) > max(totals["wrong"].values()) + 0.2
    assert max(totals["right"].values()) == totals["right"]["right"]


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("eval", {"food": "pizza", "grams": 150}),
        ("lookup_nutrition", {"food": ["pizza"], "grams": [150]}),
        ("lookup_nutrition", {"food": "pizza", "grams": "150"}),
        ("lookup_nutrition", {"food": "pizza", "grams": True}),
        ("lookup_nutrition", {"food": {"a": 1}, "grams": {"b": 2}}),
        ("lookup_nutrition", {}),
    ],
)
def test_absurd_calls_are_scored_too(name, arguments):
    call = HERMES.render([Call(name, arguments)])
    done = trace(HERMES, [f"Hm. {call}", "#### 402"], [TOOL])
    ((total,), means) = RewardSet(fr.WEIGHTS)([""], [done], portions=[PIZZA])
    assert math.isfinite(total) and total < 0.6
    assert means["reward/solved"] == means["reward/right_grams"] == 0
    assert means["reward/tools_numbers"] == 0


@pytest.mark.parametrize(
    "portion",
    [{"food": "moon dust", "grams": 100}, {"food": None, "grams": 100}]
    + [{"food": "pizza", "grams": 0}, {"food": "pizza", "grams": 5001}],
)
def test_a_portion_that_the_tool_does_not_know_is_refused(portion):
    """Otherwise a call of any other unknown food is the right food."""
    done = trace(TINY, ["Hm. <<lookup moon cheese 100>>", "#### 402"], [TOOL])
    for reward in (fr.right_food, fr.right_grams, fr.needless_calls, fr.solved):
        with pytest.raises(ValueError, match="names of Food-101"):
            reward([""], [done], portions=[[portion]])


def test_what_was_not_looked_up_in_time_is_not_solved():
    """The right call, its result an error, and the right sum known by heart."""
    late = dataclasses.replace(TOOL, run=lambda food, grams: {"error": "too late"})
    done = trace(TINY, CASES["right"][1], [late])
    assert fr.right_grams([""], [done], portions=[PIZZA]) == [1.0]
    assert fr.solved([""], [done], portions=[PIZZA]) == [0.0]


def test_another_tools_kcal_are_not_the_nutrition_tools():
    guess = toy_tools.make("guess", lambda: {"kcal": "about 400"})
    call = f"Hm. {HERMES.render([Call('guess')])}"
    done = trace(HERMES, [call, "#### 402"], [TOOL, guess])
    assert fr.tools_numbers([""], [done]) == [0.0]
    assert fr.well_formed([""], [done], portions=[PIZZA]) == [0.0]
