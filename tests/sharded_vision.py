"""Run with 8 simulated devices: a model that sees, on 8 of them and on one.

`XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/sharded_vision.py`
"""

import tempfile

import jax
import numpy as np
from flax import nnx
from tiny_models import Same
from tiny_vision import IMAGE, PICTURE, model, pictures

from helpers.generation.sampling import generate, row_keys
from helpers.model import weights
from helpers.runtime.sharding import make_mesh
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

P, G, TC = 8, 2, 5


def groups():
    """Eight prompts, every other with a picture; the slots of the others are black."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(2, 10, (P, 20)).astype(np.int32)
    prompt[::2, 3 : 3 + len(PICTURE)] = PICTURE
    images = pictures(P, 1)
    images[1::2] = 0
    return {
        "prompt": prompt,
        "prompt_mask": np.ones_like(prompt),
        "images": images,
        "completion": rng.integers(2, 10, (P, G, TC)).astype(np.int32),
        "loss_mask": np.ones((P, G, TC), np.float32),
        "logprobs": np.full((P, G, TC), -3.0, np.float32),
        "advantages": rng.normal(size=(P, G)).astype(np.float32),
    }


def run(folder, devices):
    """(answers, metrics, weights) of sampling and three updates on so many devices."""
    mesh, batch = make_mesh(jax.devices()[:devices]), groups()
    policy = weights.load(folder, vision=True, mesh=mesh)
    out = generate(
        policy, batch["prompt"], batch["prompt_mask"],
        row_keys(jax.random.key(0), 0, P, G), max_tokens=TC, eos_ids=(),
        images=batch["images"],
    )  # fmt: skip
    if devices > 1:
        assert out.tokens.sharding.spec[0] == "data"
    trainer = Trainer(
        policy, objectives.policy_gradient(), adamw(1e-3, b1=0.5, b2=0.5), mesh=mesh,
        log=False,
    )  # fmt: skip
    return out, trainer.fit(Same(batch), 3), nnx.to_pure_dict(nnx.state(policy))


if __name__ == "__main__":
    assert len(jax.devices()) == 8
    with tempfile.TemporaryDirectory() as scratch:
        weights.save(model(width=16, ff=24), scratch)
        (ours, table, many), (expected, alone, one) = (run(scratch, n) for n in (8, 1))
    assert (groups()["prompt"] == IMAGE).any(axis=1).tolist() == [True, False] * 4
    np.testing.assert_array_equal(ours.tokens, expected.tokens)
    np.testing.assert_allclose(ours.logprobs, expected.logprobs, atol=2e-5)
    for row, other in zip(table, alone, strict=True):
        np.testing.assert_allclose(row["loss"], other["loss"], rtol=1e-5, atol=1e-6)
    shares = [shard.data.shape for shard in many["vision"]["patch"].addressable_shards]
    assert len(shares) == 8 and shares[0] == (6, 12), shares
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4), many, one
    )
    print("all the same")
