"""A Gemma 4 in this process: it says what rollouts say, of a photo of any shape."""

import dataclasses

import gemma4_sights
import jax
import numpy as np
import pytest
import toy_tools

from helpers.app import local_model
from helpers.app.assistant import converse
from helpers.app.local_model import LocalModel
from helpers.batches import images, prompt_batches
from helpers.generation.tool_use import ToolUse
from helpers.model.vision_config import BUDGETS
from helpers.text import chat
from helpers.tools.grammars import GEMMA4

BUDGET, HEARD = 6, 400
TOOLS = [toy_tools.make("add", lambda n: {"sum": 7}, n="integer")]


@pytest.mark.slow
def test_it_says_what_the_rollouts_say(families, monkeypatch):
    tokenizer = families["gemma4"]
    model = gemma4_sights.of_config(gemma4_sights.for_tokenizer(tokenizer))
    vision, real = model.config.vision, chat.eos_ids(tokenizer)
    often = (*real, *range(20, len(tokenizer), 3))
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: often)
    limits = {"max_tokens": BUDGET, "max_result_tokens": HEARD}
    backend = LocalModel(model, tokenizer, GEMMA4, "small", tools=TOOLS, **limits)
    said = set()
    for seed, shape in enumerate([(30, 90), (90, 30)]):
        rng = np.random.default_rng(seed)
        picture = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
        content = [{"type": "image", "shape": list(shape)}]
        content += [{"type": "text", "text": "Hi"}]
        prompt = next(
            prompt_batches.prompts(
                [{"question": [{"role": "user", "content": content}]}],
                tokenizer,
                batch=1,
                buckets=local_model.BUCKETS,
                seed=0,
                tools=[TOOLS[0].schema],
                pictures=lambda row, picture=picture: [
                    images.fit_whole(picture, vision)
                ],
                vision=vision,
            )
        )
        use = ToolUse(GEMMA4, TOOLS, turns=local_model.TURNS, max_result_tokens=HEARD)
        keys = jax.random.split(jax.random.key(0), (1, 1))
        told = {"max_tokens": BUDGET, "temperature": 0}
        answers = use.answers(model, tokenizer, prompt, keys, **told)
        last = list(converse(backend, "Hi", picture, TOOLS))[-1]
        trace, ended = answers.texts[0][0], bool(answers.ended[0, 0])
        assert last.kind == ("answer" if ended and trace.answer else "error")
        if last.kind == "answer":
            assert last.text == trace.answer
        own = backend.begin("Hi", picture).write()
        count = len(own.tokens)
        assert answers.tokens[0, 0, :count].tolist() == own.tokens.tolist()
        said.add(tuple(own.tokens.tolist()))
    assert len(said) == 2, "it does not look"


def test_the_largest_picture_leaves_room_for_a_question(families, monkeypatch):
    """40 × 28 squares are 1,120 tokens, all that Gemma 4 sees in a picture."""
    tokenizer = families["gemma4"]
    model = gemma4_sights.of_config(gemma4_sights.for_tokenizer(tokenizer))
    largest = dataclasses.replace(model.config.vision, budget=max(BUDGETS))
    model.config = dataclasses.replace(model.config, vision=largest)
    monkeypatch.setattr(local_model, "_Conversation", lambda _, prompt, turns: prompt)
    picture = np.zeros((40 * largest.side, 28 * largest.side, 3), np.uint8)
    prompt = LocalModel(model, tokenizer, GEMMA4, "small").begin("Hi " * 200, picture)
    assert (prompt["prompt"] == largest.image_token).sum() == 1120
    assert prompt["prompt_mask"].sum() > 1320
