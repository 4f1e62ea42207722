"""GSPO on random answers in bfloat16, without any update.

Run by test_on_policy, and on 8 simulated devices by `sharded.py on_policy`.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from toy_training import Fixed

from helpers.model import lora, weights
from helpers.runtime.sharding import make_mesh
from helpers.training import objectives
from helpers.training.optimizers import Optimizer, constant
from helpers.training.trainer import Trainer

SFT = Path(__file__).parents[1] / "data" / "tiny" / "sft"


def policy(rank, dtype):
    """The shipped model, with fresh adapters of a rank unless that is 0."""
    model = weights.load(SFT, dtype=dtype)
    return lora.add(model, rank) if rank else model


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
