"""A Gemma behind the app: asked as the food lesson trains it, with what it learned."""

import dataclasses
import threading

import family_tokenizers
import gemma4_sights
import jax
import numpy as np
import pytest
from flax import nnx

from helpers.app import photo_model
from helpers.batches import images, prompt_batches
from helpers.model import lora, weights
from helpers.recipes import food101, maths, presets
from helpers.tasks.food import food_traces
from helpers.text import chat
from helpers.tools import nutrition

QUESTION = "How many kcal are in 150 g of this?"


@pytest.fixture
def preset(tmp_path, monkeypatch):
    """Sizes of a food lesson, with a small random Gemma 4 that sees."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))
    folder = family_tokenizers.save(tmp_path / "gemma4", "gemma4")
    tokenizer = chat.load_tokenizer(folder)
    config = gemma4_sights.for_tokenizer(tokenizer)
    weights.save(gemma4_sights.of_config(config), folder, tokenizer)
    sizes = {"model": str(folder), "dtype": "float32", "lora_rank": 4}
    return dataclasses.replace(presets.FOOD["v5e-1"], **sizes)


def keep_adapters(preset, stage, value):
    policy = lora.add(food101.load(preset), preset.lora_rank)
    adapters = jax.tree.map(lambda x: x + value, nnx.state(policy, lora.Adapter))
    nnx.update(policy, adapters)
    lora.save(policy, maths.adapters_folder(stage, preset), base=preset.model)
    return jax.tree.leaves(adapters)


def test_it_is_told_of(preset):
    ((name, choice),) = photo_model.on_real_weights(preset).items()
    assert name == "gemma4, on this machine"
    assert choice.runs == f"on this computer: {preset.model}, as it comes"
    assert choice.seen == photo_model.AS_IT_COMES and choice.sure == 0
    assert isinstance(choice.lock, type(threading.Lock()))


@pytest.mark.slow
def test_the_last_stage_that_was_trained_here_is_asked(preset):
    for stage, value in (("food_sft", 0.25), ("food_grpo", 0.5)):
        wanted = keep_adapters(preset, stage, value)
        (choice,) = photo_model.on_real_weights(preset).values()
        assert choice.runs.endswith(f"with the adapters of {stage}")
        assert choice.seen == photo_model.TAUGHT
        backend = choice.make()
        assert backend is choice.make(), "it is loaded once"
        got = jax.tree.leaves(nnx.state(backend.model, lora.Adapter))
        assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.slow
def test_it_reads_what_the_lesson_lets_it_read(preset):
    """Token for token: picture, question, its end, and the tool in the template."""
    (choice,) = photo_model.on_real_weights(preset).values()
    backend, picture = choice.make(), np.full((60, 90, 3), 90, np.uint8)
    there = food101.Recipe(preset, backend.model, backend.tokenizer, [], [])
    use = there.tools
    assert backend.grammar == use.grammar and backend.max_tokens == there.turn
    assert backend.max_result_tokens == use.max_result_tokens
    assert backend.schemas == use.schemas
    text = QUESTION + food101.form_of(backend.model.config).ask
    messages = images.shaped(food_traces.shown(text), [picture])
    sees = backend.model.config.vision
    wanted = next(
        prompt_batches.prompts(
            [{"question": messages}],
            backend.tokenizer,
            batch=1,
            buckets=(1024,),
            seed=0,
            pictures=lambda row: [images.fit_for(picture, sees)],
            vision=sees,
            tools=[nutrition.TOOL.schema],
        )
    )
    read = []
    backend._read = lambda messages, picture, turns=4, may_call=True: read.append(
        messages
    )
    backend.begin(QUESTION, picture)
    (told,) = read
    ids = chat.prompt_tokens(
        backend.tokenizer,
        images.shaped(told, [picture]),
        tools=backend.schemas,
        vision=sees,
    )
    real = wanted["prompt"][wanted["prompt_mask"] > 0]
    assert list(ids) == real.tolist()
