"""GSPO on real answers in bfloat16, without any update.

Run by test_on_policy, and on 8 simulated devices by `sharded.py on_policy`.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from toy_training import Fixed

from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.model import lora, weights
from helpers.rewards.functions import correct
from helpers.runtime.sharding import make_mesh
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import Optimizer, constant
from helpers.training.trainer import Trainer

SFT = Path(__file__).parents[1] / "data" / "tiny" / "sft"


def policy(rank, dtype):
    """The shipped model, with fresh adapters of a rank unless that is 0."""
    model = weights.load(SFT, dtype=dtype)
    return lora.add(model, rank) if rank else model


@functools.cache
def answers(dtype=jnp.bfloat16):
    """A batch of answers that the model sampled, with the log-probs it noted.

    They are off by some 0.003, as another engine's would be: ten times GSPO's clip.
    """
    rows = word_problems.generate(500, seed=11, levels=(3,))
    tokenizer = chat.load_tokenizer(SFT)
    prompts = prompt_batches.prompts(rows, tokenizer, batch=16, buckets=(48,), seed=0)
    model = weights.load(SFT, dtype=dtype)
    batch = next(Rollouts(model, prompts, correct, tokenizer, group=4, max_tokens=64))
    off = np.random.default_rng(0).normal(0, 4e-3, batch["logprobs"].shape)
    return batch | {"logprobs": batch["logprobs"] + off * batch["loss_mask"]}


def step(
    batch, objective, *, rank=8, dtype=jnp.bfloat16, rate=0.0, mesh=None, **settings
):
    """The metrics of one trainer step of plain gradient descent."""
    trainer = Trainer(
        policy(rank, dtype),
        objective,
        Optimizer(optax.sgd(1.0), constant(rate)),
        mesh=mesh or make_mesh(jax.devices()[:1]),
        log=False,
        **settings,
    )
    return trainer.fit(Fixed(batch), 1)[0]


def assert_exactly_on_policy(row):
    """Nothing has moved: no ratio is off by one bit, no answer loses its gradient."""
    assert row["ratio_mean"] == 1 and row["approx_kl"] == 0, row
    assert row["clip_fraction"] == 0, row
    assert row["grad_norm"] > 0, row


def random_answers(G=4, T=16):
    """A batch of answers of unequal lengths that nobody sampled."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, weights.read_config(SFT)["vocab_size"], (16, G, T))
    mask = np.arange(T) < rng.integers(1, T + 1, (16, G, 1))
    return {
        "prompt": tokens[:, 0].astype(np.int32),
        "prompt_mask": mask[:, 0].astype(np.int32),
        "completion": tokens.astype(np.int32),
        "loss_mask": mask.astype(np.float32),
        "logprobs": np.full(tokens.shape, -3, np.float32),
        "advantages": rng.normal(size=(16, G)).astype(np.float32),
    }


def main():
    batch = random_answers()
    settings = {"minibatches": 2, "accumulate": 2, "rank": 0}
    row = step(batch, objectives.gspo(), mesh=make_mesh(model=2), **settings)
    assert_exactly_on_policy(row)
    assert np.isfinite(row["logprob_gap"]) and row["logprob_gap"] > 1e-3, row
