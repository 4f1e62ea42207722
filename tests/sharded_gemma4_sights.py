"""Gemma 4 with pictures, on 8 simulated devices and on one: SFT, samples, GRPO's loss.

Run by `sharded.py pictures`.
"""

import functools

import gemma4_shapes
import gemma4_sights
import jax
import numpy as np
import tiny_models
from flax import nnx
from tiny_models import Same
from toy_training import assert_same_weights

from helpers.generation.sampling import generate, row_keys
from helpers.runtime.sharding import make_mesh, place, place_batch, using
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

G, T = 2, 4
# Sizes that eight devices can share; a layer of each kind.
SHAPE = gemma4_shapes.SMALL | {"vocab_size": 24, "full_head_dim": 8, "head_dim": 4}
SHAPE |= {"ff": 24, "kinds": "lf", "sharing": 0, "double_wide": False}
CONFIG = gemma4_sights.config(
    SHAPE, width=16, heads=2, kv_heads=2, ff=24, both_ways=True, standardized=True
)


def batches():
    """(packed rows, groups) of eight prompts: with one picture, two, none, a long one.

    An answer follows each prompt, and is learned; groups have two.
    """
    tokens, mask, _, strips = (
        np.concatenate([x, x]) if isinstance(x, np.ndarray) else x
        for x in gemma4_sights.batch(CONFIG.vision)
    )
    rng = np.random.default_rng(0)
    answers = rng.integers(2, 15, (len(tokens), G, T)).astype(np.int32)
    rows = np.pad(tokens, [(0, 0), (0, T)], constant_values=5).astype(np.int32)
    segments, learned = np.pad(mask, [(0, 0), (0, T)]), np.zeros(rows.shape, np.float32)
    for row, length in enumerate(mask.sum(axis=1)):
        here = slice(length, length + T)
        rows[row, here], segments[row, here] = answers[row, 0], 1
        learned[row, here] = 1
    packed = {
        "tokens": rows,
        "segment_ids": segments.astype(np.int32),
        "positions": np.tile(np.arange(rows.shape[1], dtype=np.int32), (len(rows), 1)),
        "loss_mask": learned,
        "images": strips,
    }
    groups = {
        "prompt": tokens.astype(np.int32),
        "prompt_mask": mask.astype(np.int32),
        "images": strips,
        "completion": answers,
        "loss_mask": np.ones(answers.shape, np.float32),
        "logprobs": np.full(answers.shape, -3.0, np.float32),
        "advantages": rng.normal(size=answers.shape[:2]).astype(np.float32),
    }
    return packed, groups


def train(packed, devices, tensor=1):
    """Two steps of SFT for all weights."""
    model = gemma4_sights.of_config(CONFIG)
    mesh = make_mesh(jax.devices()[:devices], tensor)
    trainer = Trainer(model, objectives.sft(), adamw(1e-3), mesh=mesh, log=False)
    return model, [row["loss"] for row in trainer.fit(Same(packed), 2)]


@functools.partial(jax.jit, static_argnums=0)
def _loss(graph, state, batch):
    return objectives.policy_gradient()(nnx.merge(graph, state), batch)[0]


def loss(model, groups, mesh):
    """Of policy gradients for groups, which are spread like those of a step."""
    batch = {name: x[0, 0] for name, x in place_batch(groups, mesh).items()}
    graph, state = nnx.split(model)
    with using(state):
        return _loss(graph, state, batch)


def answers(model, groups):
    return generate(
        model, groups["prompt"], groups["prompt_mask"],
        row_keys(jax.random.key(0), 0, len(groups["prompt"]), G), max_tokens=T,
        eos_ids=(), images=groups["images"],
    )  # fmt: skip


def main():
    """All weights learn, cut over two devices as well; adapted ones answer."""
    packed, groups = batches()
    many, losses = train(packed, 8, tensor=2)
    alone, expected = train(packed, 1)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_weights(many, alone, rtol=1e-4, atol=2e-4)
    tower = many.vision.layers.q[...]
    shares = {shard.data.shape for shard in tower.addressable_shards}
    assert shares != {tower.shape}, shares

    alone = tiny_models.adapted(gemma4_sights.of_config(CONFIG))
    graph, state = nnx.split(alone)
    many = nnx.merge(graph, place(state, make_mesh()))
    ours, theirs = answers(many, groups), answers(alone, groups)
    assert ours.tokens.sharding.spec[0] == "data"
    np.testing.assert_array_equal(ours.tokens, theirs.tokens)
    np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-4)
    one = make_mesh(jax.devices()[:1])
    pair = loss(many, groups, make_mesh()), loss(alone, groups, one)
    np.testing.assert_allclose(*pair, rtol=1e-5)
