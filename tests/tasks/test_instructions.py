"""Instructions and their rewards: what follows a rule, and what only seems to."""

import pytest

from helpers.tasks import instructions


def follows(text, word, *rules):
    return instructions.follows([""], [text], [word], [rules]) == [1.0]


@pytest.mark.parametrize(
    "text, rules, expected",
    [
        ("Bread is a staple of the human diet.", ["short"], True),
        (" Bread is a staple of the human diet.\n", ["short"], True),
        ("Bread is good.", ["short"], False),  # three words
        ("Bread is a staple of the human diet since the old days.", ["short"], False),
        ("bread is a staple of the human diet.", ["short"], False),
        ("Bread is a staple of the diet", ["short"], False),
        ("Bread is a staple. It is old.", ["short"], False),
        ("Bread is\na staple of life.", ["short"], False),
        ("It is a staple of the human diet.", ["short"], False),  # not about bread
        ("bread is a staple of life.", ["short", "lowercase"], True),
        ("Today bread is brown!", ["today", "color", "shout"], True),
        ("Today bread is brown.", ["shout"], False),
        ("Is bread a staple of life?", ["question"], True),
    ],
)
def test_an_answer_follows_its_rules(text, rules, expected):
    assert follows(text, "bread", *rules) is expected


def test_the_slope_counts_the_conditions_that_are_met():
    texts = ["Bread is a staple of life.", "bread is a staple of life.", "no"]
    scores = instructions.partly([""] * 3, texts, ["bread"] * 3, [["short"]] * 3)
    assert scores == pytest.approx([1, 2 / 3, 0])


def test_repeating_the_word_says_nothing():
    texts = ["A cheese is a cheese.", "Cheese is a creamy and salty food from Italy."]
    scores = instructions.says_something([""] * 2, texts, ["cheese"] * 2)
    assert scores == [0.0, 1.0]


def test_held_out_words_are_never_trained_on():
    train, test = map(instructions.split_words, ("train", "test"))
    assert len(train) == instructions.TRAIN and len(test) >= 200
    assert not {*train} & {*test}
    rows = instructions.ask(test)
    assert {row["word"] for row in rows} == {*test}
    assert all(row["word"] in row["question"] for row in rows)
