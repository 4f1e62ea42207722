"""Rollouts with a drafter: what is learned from them is what it was."""

import jax
import numpy as np
import pytest
from tiny_models import model as make

from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.rewards.functions import RewardSet
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.speculative_turn import SpeculativeTurn
from helpers.text.tokenizer import train_tokenizer
from helpers.training.objectives import policy_gradient
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOKENIZER = train_tokenizer(["Mia has two apples.", "Ben buys nine pears."], 300)
ROWS = [{"question": f"{i}?" + " one" * (i % 4), "answer": str(i)} for i in range(8)]


def lengths(prompts, completions, **_):
    """A reward that tells answers apart."""
    return [len(text) % 5 / 4 for text in completions]


def policy(seed=0, **changes):
    return make("qwen3", seed, vocab=len(TOKENIZER), **{"layers": 2} | changes)


def rollouts(model, drafter, **settings):
    source = prompt_batches.prompts(ROWS, TOKENIZER, batch=4, buckets=(32,), seed=0)
    settings = {"group": 4, "max_tokens": 24, "seed": 3} | settings
    turn = SpeculativeTurn(drafter)
    reward = RewardSet({lengths: 1.0})
    return Rollouts(model, source, reward, TOKENIZER, tools=turn, **settings)


def drafter(seed=0):
    return DraftModel(policy(seed, layers=1), 3)


@pytest.mark.parametrize("make_drafter", [drafter, lambda: PromptLookup(3)])
def test_what_the_sampler_noted_is_what_the_policy_says(make_drafter):
    model = policy()
    source = rollouts(model, make_drafter())
    trainer = Trainer(model, policy_gradient(), adamw(1e-2), log=False)
    table = trainer.fit(source, 2)
    assert max(row["logprob_gap"] for row in table) < 2e-5
    assert table[0]["clip_fraction"] == 0 and table[0]["tokens_per_pass"] >= 1


def test_a_drafter_that_knows_the_policy_saves_passes():
    model = policy()
    near = next(iter_batches(rollouts(model, DraftModel(policy(), 3))))
    far = next(iter_batches(rollouts(model, drafter(9))))
    assert near == pytest.approx(4, abs=0.35) and far < 2


def iter_batches(source):
    """The tokens per pass of each batch."""
    for _ in source:
        yield source.metrics["tokens_per_pass"]


def test_a_run_goes_on_with_the_same_drafter_only():
    model = policy()
    source = rollouts(model, drafter())
    next(source)
    state = source.get_state()
    expected = next(source)
    again = rollouts(policy(), drafter())
    again.set_state(state)
    np.testing.assert_array_equal(next(again)["completion"], expected["completion"])
    for other in (drafter(1), PromptLookup(3), DraftModel(policy(layers=1), 2)):
        with pytest.raises(ValueError, match="drafter"):
            rollouts(policy(), other).set_state(state)


def test_pictures_are_refused():
    prompts = {"prompt": 0, "prompt_mask": 0, "images": 0}
    with pytest.raises(ValueError, match="sees no pictures"):
        SpeculativeTurn(drafter()).answers(
            policy(), TOKENIZER, prompts, jax.random.key(0), max_tokens=2
        )
