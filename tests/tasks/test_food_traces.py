"""Demonstrations about pictures of food: what they show is right by the rewards."""

import pytest

from helpers.rewards import food_rewards
from helpers.tasks.food import food_pictures, food_traces
from helpers.tools.grammars import GEMMA3, HERMES
from helpers.tools.nutrition import TINY, TOOL
from helpers.tools.tool import trace

PICTURES = food_pictures.generate(40, seed=3, size=16, levels=(1, 2), no_food=0.3)
ROWS = food_traces.ask(PICTURES, seed=4)


@pytest.mark.parametrize("grammar", [TINY, HERMES, GEMMA3], ids=lambda g: g.name)
def test_demonstrations_are_solved_and_call_nothing_needless(grammar):
    kinds = set()
    for row in ROWS:
        _, *messages = food_traces.demonstration(row, grammar)
        turns = [
            grammar.render(called(m)) if m.get("tool_calls") else m["content"]
            for m in messages
            if m["role"] == "assistant"
        ]
        played = trace(grammar, turns, [TOOL])
        columns = {"portions": [row["portions"]]}
        for reward in (food_rewards.solved, food_rewards.final_format):
            assert reward([""], [played], **columns) == [1.0], (row["text"], turns)
        assert food_rewards.needless_calls([""], [played], **columns) == [0.0]
        told = [text for role, text in played.segments if role == "tool"]
        assert told == [m["content"] for m in messages if m["role"] != "assistant"]
        kinds.add(len(played.calls))
    assert kinds == {0, 1, 2}


def test_what_a_picture_shows_can_be_read(capsys):
    told = food_traces.alts(ROWS)
    for row in ROWS:
        text = told[row["image"].tobytes()].lower()
        assert row["place"] in text or not row["foods"], (text, row["place"])
        assert ("no food" in text) == (not row["foods"])
    assert len(told) == len(ROWS)


def called(message):
    from helpers.tools.calls import Call

    functions = [call["function"] for call in message["tool_calls"]]
    return [Call(f["name"], f["arguments"]) for f in functions]


def test_rows_ask_about_what_is_on_the_picture():
    for row, drawn in zip(ROWS, PICTURES, strict=True):
        assert [p["food"] for p in row["portions"]] == drawn["foods"]
        assert all(str(p["grams"]) in row["text"] for p in row["portions"])
        image, words = row["question"][0]["content"]
        assert image == {"type": "image"} and words["text"] == row["text"]
        assert food_traces.pictures(row)[0] is drawn["image"]
