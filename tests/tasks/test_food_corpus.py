"""What the food base reads is true of its pictures, and it meets no tool."""

import random
import re

import numpy as np
import pytest

from helpers.batches.images import counts
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.nutrition import TINY
from scripts import food_corpus, tiny_food

ROWS = food_pictures.generate(120, seed=1, levels=(1, 2), no_food=0.3)


@pytest.fixture(scope="module")
def tokenizer():
    return food_corpus.make_tokenizer(ROWS)


def test_what_is_said_about_a_picture_is_what_is_on_it():
    rng, count = random.Random(0), 0
    for row in ROWS:
        question, answer = food_corpus.question_about(row, rng)
        words = re.sub(r"[^a-z]", " ", answer)
        foods = [food.replace("_", " ") for food in row["foods"]]
        if question in food_corpus.DESCRIBE:
            continue  # captions have tests of their own
        count += 1
        others = {f.replace("_", " ") for f in food_pictures.FOODS} - set(foods)
        assert all(food in answer for food in foods)
        assert not any(f" {other} " in f" {words} " for other in others)
        assert ("no food" in answer) == (not foods)
        assert re.findall(r"\d+", answer) == re.findall(r"\d+", question)
    assert count > 50


def test_the_base_has_met_no_tool(tokenizer):
    vision = tiny_food.new_model(tokenizer).config.vision
    examples, pictures = food_corpus.talk(tokenizer, vision, ROWS)
    texts = [tokenizer.decode(tokens) for tokens, _ in examples]
    tool = re.compile(r"<<lookup|kcal (are|is|in)|#### no")
    assert not any(tool.search(text) for text in texts)
    numbers = list(map(len, counts([tokens for tokens, _ in examples], vision)))
    assert numbers == [len(pictures(index)) for index in range(len(examples))]
    np.testing.assert_array_equal(pictures(7)[0], ROWS[7]["image"])
    assert sum(numbers) == len(ROWS)
    assert texts[3].endswith(f"<end_of_image> {food_corpus.named(ROWS[3])}<eos>")


def test_calls_are_short_for_every_food(tokenizer):
    for food in food_pictures.FOODS:
        call = TINY.render([Call("lookup_nutrition", {"food": food, "grams": 450})])
        call = call.replace("_", " ")
        assert len(tokenizer(call, add_special_tokens=False)["input_ids"]) <= 9
    vision = tiny_food.new_model(tokenizer).config.vision
    one = food_pictures.generate(50, seed=2, no_food=0.3)
    questions = [row["question"] for row in food_traces.ask(one, seed=0)]
    tokens = chat.prompts_tokens(tokenizer, questions, vision=vision)
    assert max(map(len, tokens)) <= 40
