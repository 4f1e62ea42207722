"""Captions say what is drawn and nothing else; questions ask for what is expected."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.food import drawing, food_pictures
from helpers.tasks.food.food_traces import GRAMS, caption, questions

unhurried = settings(deadline=None, max_examples=100)
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
    found = {plain.index(word): food for food, word in words.items() if word in plain}
    return plain, [found[place] for place in sorted(found)]


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


def kcal(food, grams):
    """A lookup of our own: so many kcal a gram as the name has letters."""
    return len(food) * grams


@unhurried
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.integers(0, 10**6))
def test_a_question_asks_for_the_grams_whose_kcal_are_expected(indices, seed):
    rows = [arrangement(index) for index in indices]
    asked = questions(rows, kcal, seed=seed)
    assert asked == questions(rows, kcal, seed=seed)
    for row, task in zip(rows, asked, strict=True):
        assert {name: task[name] for name in row} == row
        numbers = [int(n) for n in re.findall(r"\d+", task["question"])]
        assert set(numbers) <= set(GRAMS) and "kcal" in task["question"]
        if not row["foods"]:
            assert (task["grams"], task["expected"]) == ([], None)
            assert len(numbers) == 1
        else:
            assert task["grams"] == numbers and len(numbers) == len(row["foods"])
            by_hand = 0
            for food, grams in zip(row["foods"], numbers, strict=True):
                by_hand += len(food) * grams
            assert task["expected"] == by_hand
            assert not any(f in task["question"].lower() for f in row["foods"])
        if len(row["foods"]) == 2:
            question = task["question"]
            assert question.index(str(numbers[0])) <= question.index("right")
            assert question.index("left") < question.index("right")


def test_questions_without_food_read_like_those_with():
    """Else the words would tell that there is nothing to look up."""
    rows = food_pictures.generate(400, seed=2, size=16, no_food=0.5)
    forms = {True: set(), False: set()}
    for task in questions(rows, kcal, seed=0):
        form = re.sub(r"\d+", "N", task["question"])
        forms[bool(task["foods"])].add(form)
    assert forms[True] == forms[False] and len(forms[True]) >= 3
