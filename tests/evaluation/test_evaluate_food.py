"""Measuring conversations with a tool: scripted ones, of which all is known."""

import pytest
from scripted_answers import TOKENIZER, Scripted

from helpers.evaluation import evaluate_food
from helpers.evaluation.report import FoodReport
from helpers.tools.nutrition import TINY, TOOL
from helpers.tools.tool import trace

PIZZA = [{"food": "pizza", "grams": 150}]  # 402 kcal
RIGHT = ["<<lookup pizza 150>>", "#### 402"]
GUESS = ["#### 402"]
WRONG_FOOD = ["<<lookup waffles 150>>", "#### 437"]
WRONG_GRAMS = ["<<lookup pizza 100>>", "#### 268"]
BROKEN = ["<<lookup pizza>>", "#### 402"]
NONE = ["#### no food"]

# name: portions, the greedy conversation, the samples.
SCRIPT = {
    "a": (PIZZA, RIGHT, [RIGHT] * 4 + [GUESS] * 4),
    "b": (PIZZA, GUESS, [RIGHT] + [BROKEN] * 7),
    "c": (PIZZA, WRONG_FOOD, [WRONG_FOOD] * 8),
    "d": (PIZZA, WRONG_GRAMS, [RIGHT] * 8),
    "e": (PIZZA, BROKEN, [BROKEN] * 8),
    "f": ([], NONE, [NONE] * 6 + [RIGHT] * 2),
    "g": ([], RIGHT, [NONE] * 8),
}
ROWS = [
    {"question": name, "portions": SCRIPT[name][0], "level": 1 + (name in "cde")}
    for name in SCRIPT
]


def evaluate(ended=True, **settings):
    answers = {
        name: (spoken(greedy), [spoken(turns) for turns in samples])
        for name, (_, greedy, samples) in SCRIPT.items()
    }
    tools = Scripted(answers, ended)
    settings = {"samples": 8, "log": False, "max_tokens": 5} | settings
    return evaluate_food(None, TOKENIZER, ROWS, tools, **settings), tools.calls


def spoken(turns):
    return trace(TINY, turns, [TOOL])


@pytest.mark.parametrize("batch", [1, 50])
def test_figures_are_those_counted_by_hand(batch):
    report, shapes = evaluate(batch=batch)
    assert report.n == 7 and report.column("strict") == [1, 0, 0, 0, 0, 1, 0]
    assert report.column("right") == [4, 1, 0, 8, 0, 6, 8]
    assert report.pass1 == pytest.approx((4 + 1 + 0 + 8 + 0 + 6 + 8) / 56)
    assert report.pass8 == pytest.approx(5 / 7)
    assert report.share("valid") == pytest.approx(3 / 5)
    assert report.share("food") == pytest.approx(2 / 5)
    assert report.share("grams") == pytest.approx(1 / 5)
    assert report.share("declined") == pytest.approx(1 / 2)
    assert report.column("calls") == [1, 0, 1, 1, 0, 0, 1]
    assert len(set(shapes)) == 2  # two programs: one greedy, one sampling
    row = report.row("food_sft", params=1, seed=0, seconds=2.0)
    assert row["greedy"] == report.greedy and row["n"] == 7
    assert row["low"] < row["greedy"] < row["high"]
    assert "right 28.6%" in str(report) and "declined 50.0%" in str(report)


def test_other_pictures_asked_about_in_the_same_words_are_other_rows():
    report, _ = evaluate()
    others = [{**a, "gold": [{"food": "ramen", "grams": 1}]} for a in report.answers]
    with pytest.raises(ValueError, match="same rows"):
        report.since(FoodReport(others, 8))
    assert report.since(report).difference == 0


def test_a_conversation_that_was_cut_off_is_not_right():
    """As `#### 402` might have become `#### 4020`; RL leaves it out, too."""
    report, _ = evaluate(ended=False)
    assert report.column("strict") == [0] * 7 == report.column("right")
    assert report.truncated == 1 and report.share("valid") == pytest.approx(3 / 5)
