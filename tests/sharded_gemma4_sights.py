"""Gemma 4 with pictures, on 8 simulated devices and on one: sampled, SFT and GRPO.

`XLA_FLAGS=--xla_force_host_platform_device_count=8 python
tests/sharded_gemma4_sights.py`, run by test_gemma4_sights.
"""

import gemma4_shapes
import gemma4_sights
import jax
import numpy as np
import tiny_models
from tiny_models import Same
from toy_training import assert_same_weights

from helpers.generation.sampling import generate, row_keys
from helpers.model import lora
from helpers.runtime.sharding import make_mesh
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

G, T = 2, 4
# Sizes that eight devices can share.
SHAPE = gemma4_shapes.SMALL | {"vocab_size": 24, "full_head_dim": 8, "head_dim": 4}
SHAPE |= {"ff": 24}
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


def train(objective, batch, devices, adapted, tensor=1):
    model = gemma4_sights.of_config(CONFIG)
    if adapted:
        model = tiny_models.adapted(lora.quantize(model))
    mesh = make_mesh(jax.devices()[:devices], tensor)
    trainer = Trainer(model, objective, adamw(1e-3), mesh=mesh, log=False)
    losses = [row["loss"] for row in trainer.fit(Same(batch), 2)]
    return trainer, model, losses


def answers(model):
    groups = batches()[1]
    return generate(
        model, groups["prompt"], groups["prompt_mask"],
        row_keys(jax.random.key(0), 0, len(groups["prompt"]), G), max_tokens=T,
        eos_ids=(), images=groups["images"],
    )  # fmt: skip


def main():
    """SFT of all weights, and policy gradients of adapters beside int8.

    One over all devices, the other with its matrices cut over two of them as well.
    """
    packed, groups = batches()
    for objective, batch, adapted, tensor in (
        (objectives.sft(), packed, False, 1),
        (objectives.policy_gradient(), groups, True, 2),
    ):
        trainer, many, losses = train(objective, batch, 8, adapted, tensor)
        _, alone, expected = train(objective, batch, 1, adapted)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert_same_weights(many, alone, rtol=1e-4, atol=2e-4)
        tower = many.vision.layers.q[...]
        shares = {shard.data.shape for shard in tower.addressable_shards}
        assert shares != {tower.shape}, shares
    ours, theirs = answers(many), answers(alone)
    assert ours.tokens.sharding.spec[0] == "data"
    np.testing.assert_array_equal(ours.tokens, theirs.tokens)
    np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-4)
    print("ok")


if __name__ == "__main__":
    main()
