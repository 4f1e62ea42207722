"""Captions, questions and demonstrations say what is drawn, and nothing else."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.rewards import food_rewards
from helpers.tasks.food import drawing, food_pictures, food_traces
from helpers.tasks.food.food_traces import GRAMS, ask, caption
from helpers.tools.calls import Call
from helpers.tools.grammars import GEMMA3, HERMES
from helpers.tools.nutrition import TINY, TOOL, lookup_nutrition
from helpers.tools.tool import trace

unhurried = settings(deadline=None, max_examples=50)
NAMED = {  # a word by which a caption names a food
    "chocolate_cake": "cake",
    "croque_madame": "croque",
    "cup_cakes": "cup cake",
    "deviled_eggs": "egg",
    "donuts": "donut",
    "edamame": "edamame",
    "french_fries": "fries",
    "hamburger": "hamburger",
    "hot_dog": "hot dog",
    "ice_cream": "ice cream",
    "macarons": "macaron",
    "pancakes": "pancake",
    "pizza": "pizza",
    "sushi": "sushi",
    "tacos": "taco",
    "waffles": "waffle",
}


def arrangement(index, levels=(1, 2)):
    return food_pictures.picture(1, index, size=16, levels=levels, no_food=0.4)


def named(text):
    """The foods a text names, in the order in which it does so first."""
    plain = text.replace("_", " ").replace("chocolate cake", "chocolate")
    plain = plain.replace("cup cake", "cupcake")  # else it names a cup
    words = {**NAMED, "cup_cakes": "cupcake", "chocolate_cake": "chocolate"}
    places = {plain.index(word): food for food, word in words.items() if word in plain}
    return plain, [places[place] for place in sorted(places)]


@unhurried
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_caption_names_all_foods_and_nothing_that_is_not_there(index, seed):
    row = arrangement(index)
    text = caption(row, seed=seed)
    assert text == caption(row, seed=seed) and len(text) < 140
    plain, foods = named(text)
    assert foods == row["foods"]  # two of them from left to right
    assert not (row["foods"] and ("no food" in text or "empty" in text))
    there = f"{row['place']} {row['table']}".split()
    for name in drawing.COLOURS:
        assert not re.search(rf"\b{name}\b", plain) or name in there
    for thing in drawing.THINGS:
        here = thing in row["beside"] or thing == row["place"]
        assert not re.search(rf"\ba {thing}\b", plain) or here


@unhurried
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.integers(0, 10**6))
def test_a_question_asks_for_the_grams_whose_kcal_are_expected(indices, seed):
    rows = [arrangement(index) for index in indices]
    for row, task in zip(rows, ask(rows, seed=seed), strict=True):
        assert all(task[name] is row[name] for name in row)
        question = task["text"]
        numbers = [int(n) for n in re.findall(r"\d+", question)]
        assert set(numbers) <= set(GRAMS) and "kcal" in question
        if not row["foods"]:
            assert (task["grams"], task["expected"]) == ([], None)
            assert len(numbers) == 1
        else:
            assert task["grams"] == numbers and len(numbers) == len(row["foods"])
            each = zip(row["foods"], numbers, strict=True)
            assert task["expected"] == sum(lookup_nutrition(*x)["kcal"] for x in each)
            assert not any(f in question.lower() for f in row["foods"])
        if len(row["foods"]) == 2:
            assert question.index(str(numbers[0])) <= question.index("right")
            assert question.index("left") < question.index("right")


def test_questions_without_food_read_like_those_with():
    """Else the words would tell that there is nothing to look up."""
    rows = food_pictures.generate(400, seed=2, size=16, no_food=0.5)
    forms = {True: set(), False: set()}
    for task in ask(rows, seed=0):
        form = re.sub(r"\d+", "N", task["text"])
        forms[bool(task["foods"])].add(form)
    assert forms[True] == forms[False] and len(forms[True]) >= 3


# --- demonstrations ---

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
        conversation = trace(grammar, turns, [TOOL])
        given = [""], [conversation]
        columns = {"portions": [row["portions"]]}
        assert food_rewards.solved(*given, **columns) == [1.0], (row["text"], turns)
        assert food_rewards.final_format(*given, **columns) == [1.0]
        assert food_rewards.needless_calls(*given, **columns) == [0.0]
        results = [text for role, text in conversation.segments if role == "tool"]
        assert results == [m["content"] for m in messages if m["role"] != "assistant"]
        kinds.add(len(conversation.calls))
    assert kinds == {0, 1, 2}


def test_what_a_picture_shows_can_be_read():
    alts = food_traces.alts(ROWS)
    for row in ROWS:
        text = alts[row["image"].tobytes()].lower()
        assert row["place"] in text or not row["foods"], (text, row["place"])
        assert ("no food" in text) == (not row["foods"])
    assert len(alts) == len(ROWS)


def called(message):
    functions = [call["function"] for call in message["tool_calls"]]
    return [Call(f["name"], f["arguments"]) for f in functions]


def test_rows_ask_about_what_is_on_the_picture():
    for row, drawn in zip(ROWS, PICTURES, strict=True):
        assert [p["food"] for p in row["portions"]] == drawn["foods"]
        assert all(str(p["grams"]) in row["text"] for p in row["portions"])
        image, words = row["question"][0]["content"]
        assert image == {"type": "image"} and words["text"] == row["text"]
        assert food_traces.pictures(row)[0] is drawn["image"]
