"""The limits of a calculator's answers: what is refused by name, and what just fits."""

import functools

import jax
import numpy as np
import pytest
from tiny_models import cached_model

from helpers.batches import prompt_batches
from helpers.generation import calculator_use
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import row_keys
from helpers.runtime.ranges import TextTooLong
from helpers.text import chat
from helpers.tools import calculator

TOKENIZER = chat.train_tokenizer(["She has 48/2 = <<48/2=24>>24 = 24."] * 3, size=300)
ROWS = [{"question": "How many?"}, {"question": "How many are 5 and 25?"}]
GROUP, BUDGET = 3, 20


def prompts():
    return prompt_batches.prompts(ROWS, TOKENIZER, batch=2, buckets=(64,), seed=0)


MADE_FOR = prompts().longest + BUDGET


def model(positions):
    return cached_model("qwen3", max_positions=positions, vocab=len(TOKENIZER))


@pytest.fixture
def often(monkeypatch):
    """A sixth of all tokens stop an answer, and every stop is a call: 48/2."""
    stops = tuple(range(20, len(TOKENIZER), 6))
    monkeypatch.setattr(calculator_use, "stop_ids", lambda tokenizer, vocab: stops)
    monkeypatch.setattr(calculator, "opened", lambda text: "48/2")


def answers(positions, max_tokens=BUDGET, stride=8):
    ask = functools.partial(CalculatorUse(stride=stride).answers, model(positions))
    keys = row_keys(jax.random.key(3), 0, len(ROWS), GROUP)
    return ask(TOKENIZER, next(prompts()), keys, max_tokens=max_tokens)


@pytest.mark.parametrize("limit", ["calls", "stride"])
@pytest.mark.parametrize("value", [0, 1.5, True, float("nan"), "3", None])
def test_a_limit_that_is_no_count_is_refused_by_name(limit, value):
    with pytest.raises(ValueError, match=f"{limit}={value!r}: pass a whole number"):
        CalculatorUse(**{limit: value})


@pytest.mark.parametrize("value", [0, -1, 2.5, "3"])
def test_a_budget_that_is_no_count_is_refused_by_name(value):
    with pytest.raises(ValueError, match=f"max_tokens={value!r}: pass a whole number"):
        answers(MADE_FOR, value)


def test_a_prompt_and_an_answer_that_just_fit_are_taken_whatever_the_stride(often):
    """The answers are those of a model that is held to no length."""
    done, free = answers(MADE_FOR), answers(0)
    for name in ("tokens", "mask", "logprobs", "ended"):
        np.testing.assert_array_equal(getattr(done, name), getattr(free, name))
    used = (np.cumsum(done.mask[..., ::-1], axis=-1) > 0).sum(axis=-1)
    assert done.tokens.shape[-1] == BUDGET and used.max() == BUDGET, "one fills it"
    assert done.metrics["calls"] > 0
    with pytest.raises(TextTooLong, match=f"{MADE_FOR} tokens.*{MADE_FOR - 1}"):
        answers(MADE_FOR - 1)


def test_rollouts_that_were_checked_can_be_sampled():
    settings = {"group": GROUP, "max_tokens": BUDGET, "mask_truncated": False}
    given = model(MADE_FOR), prompts(), None, TOKENIZER
    batch = next(Rollouts(*given, tools=CalculatorUse(stride=8), **settings))
    assert batch["loss_mask"].sum(axis=-1).max() <= BUDGET
