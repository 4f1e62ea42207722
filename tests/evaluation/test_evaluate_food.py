"""Measuring conversations with a tool: scripted ones, of which all is known."""

import types

import numpy as np
import pytest

from helpers.evaluation import evaluate_food
from helpers.evaluation.report import FoodReport
from helpers.generation.dialogue import Answers
from helpers.text.tokenizer import train_tokenizer
from helpers.tools.nutrition import TINY, TOOL
from helpers.tools.tool import trace

TOKENIZER = train_tokenizer(["How many kcal?"], 300)
MODEL = types.SimpleNamespace(config=types.SimpleNamespace(vision=None))
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


class Scripted:
    """Answers as a ToolUse gives them, looked up by the question."""

    schemas = None

    def __init__(self, ended=True):
        self.shapes, self.ended = [], ended

    def width(self, max_tokens):
        return max_tokens

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature):
        P, G = keys.shape
        self.shapes.append((P, G, temperature))
        texts = []
        for tokens, mask in zip(prompts["prompt"], prompts["prompt_mask"], strict=True):
            question = tokenizer.decode(tokens[mask > 0]).split("user\n")[1][0]
            _, greedy, samples = SCRIPT[question]
            turns = [greedy] if temperature == 0 else samples
            texts.append([trace(TINY, t, [TOOL]) for t in turns])
        mask = np.ones((P, G, max_tokens), np.int32)
        ended = np.full((P, G), self.ended)
        return Answers(mask, mask, mask * 0.0, ended, texts, {})


def evaluate(**settings):
    tools, settings = Scripted(), {"samples": 8, "log": False} | settings
    report = evaluate_food(MODEL, TOKENIZER, ROWS, tools, max_tokens=5, **settings)
    return report, tools.shapes


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
    report = evaluate_food(
        MODEL, TOKENIZER, ROWS, Scripted(ended=False), max_tokens=5, log=False
    )
    assert report.column("strict") == [0] * 7 == report.column("right")
    assert report.truncated == 1 and report.share("valid") == pytest.approx(3 / 5)
