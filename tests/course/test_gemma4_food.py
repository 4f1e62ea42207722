"""The tiny Gemma 4 of `scripts.gemma4_food`: its eye, its turns, and its table."""

import csv

import numpy as np
import pytest

from helpers.batches import images
from helpers.model import weights
from helpers.model.transformer import count_params
from helpers.tasks import food_traces
from helpers.text import chat
from scripts import food_corpus, gemma4_food, tiny


@pytest.fixture(scope="module")
def rows():
    return food_corpus.pictures(60, seed=1, levels=(1, 1, 1, 2))


@pytest.fixture(scope="module")
def tokenizer(rows):
    return gemma4_food.make_tokenizer(rows)


@pytest.fixture(scope="module")
def model(tokenizer):
    return gemma4_food.new_model(tokenizer)


def test_it_is_as_large_as_the_course_s_small_models(model):
    small, large = (
        count_params(weights.load(tiny.TINY / name, vision=name == "food_base"))
        for name in ("food_base", "base")
    )
    assert small < count_params(model) < large


def test_a_picture_is_nine_squares_of_its_own_pixels(model, rows):
    strip = images.fit_for(rows[0]["image"], model.config.vision)
    squares = strip.reshape(10, 16, 16, 3)[1:]
    pixels = squares.reshape(3, 3, 16, 16, 3).swapaxes(1, 2).reshape(48, 48, 3)
    np.testing.assert_array_equal(pixels, rows[0]["image"])


def test_patches_begin_white(tokenizer, rows):
    """Of the pictures measured, each component has mean 0, and the largest spread 1."""
    model = gemma4_food.new_model(tokenizer)
    before = np.asarray(model.vision.positions[...])
    gemma4_food.whiten(model.vision, rows)
    pixels = np.stack([row["image"] for row in rows]) / 127.5 - 1.0
    patches = pixels.reshape(-1, 6, 8, 6, 8, 3).swapaxes(2, 3).reshape(-1, 192)
    added = np.asarray(model.vision.positions[...]) - before
    found = patches @ np.asarray(model.vision.patches[...]).T + added[0, 0]
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-3)
    assert found.std(axis=0).max() == pytest.approx(1, abs=0.02)
    assert not added[1].any()  # once, not for the column and the row


def test_a_conversation_is_one_turn_of_the_model_that_learns_what_it_says(
    tokenizer, model
):
    row = gemma4_food.ask(20, 3)[0]
    messages = food_traces.demonstration(row, gemma4_food.GRAMMAR)
    tokens, mask = chat.conversation_tokens(
        tokenizer,
        messages,
        tools=gemma4_food.TOOLS.schemas,
        vision=model.config.vision,
    )
    assert tokens.count(model.config.vision.image_token) == 9
    (portion,) = row["portions"]
    food, grams = portion["food"].replace("_", " "), portion["grams"]
    call = f'call:lookup_nutrition{{food:<|"|>{food}<|"|>,grams:{grams}}}'
    said = tokenizer.decode([t for t, own in zip(tokens, mask, strict=True) if own])
    assert said == (
        f"<|tool_call>{call}<tool_call|><|tool_response>#### {row['expected']}<turn|>"
    )
    whole = tokenizer.decode(tokens)
    assert whole.startswith("<bos><|turn>system\n<|tool>declaration:lookup_nutrition{")
    assert whole.count("<|turn>model") == 1
    assert len(tokenizer.encode(call)) + 3 <= gemma4_food.TURN  # a turn holds a call


def test_every_other_conversation_of_the_corpus_tells_of_the_tool(
    tokenizer, model, rows
):
    vision, tools = model.config.vision, gemma4_food.TOOLS.schemas
    told, pictures = food_corpus.talk(tokenizer, vision, rows, tools=tools)
    plain, _ = food_corpus.talk(tokenizer, vision, rows)
    begins = [tokenizer.decode(tokens[:3]) for tokens, _ in told]
    talks = begins.index("<bos><|turn>system")
    assert talks == round(food_corpus.PLAIN * 60) + round(food_corpus.CAPTIONED * 60)
    assert {*begins[talks::2]} == {"<bos><|turn>system"}
    assert {*begins[talks + 1 :: 2]} == {"<bos><|turn>user"}
    assert told[1::2] == plain[1::2] if talks % 2 == 0 else told[::2] == plain[::2]
    answers = zip(told, plain, strict=True)
    assert all(sum(mask) == sum(other) for (_, mask), (_, other) in answers)
    assert pictures(3)[0].shape == vision.shape and not pictures(10_000)


def test_the_table_has_all_stages_with_three_seeds():
    with open(gemma4_food.TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    found = {tuple(row[name] for name in gemma4_food.RUN): row for row in rows}
    whole, brief = (
        str(sft.steps) for sft in (gemma4_food.IMITATION, gemma4_food.TOO_BRIEF)
    )
    stages = "sft", "grpo", "black pictures"
    assert set(found) == {
        ("base", "0", ""),
        *((stage, whole, seed) for stage in stages for seed in "012"),
        *((stage, brief, "0") for stage in stages),
    }
    for seed in "012":  # a lift beyond both intervals, and none without seeing
        before, after = (found[stage, whole, seed] for stage in ("sft", "grpo"))
        assert float(before["high"]) < float(after["low"])
        assert float(found["black pictures", whole, seed]["food"]) < 0.1
    assert float(found["grpo", brief, "0"]["valid"]) == 0  # it declines everything
