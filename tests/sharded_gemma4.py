"""Gemma 4 trained on 8 simulated devices as on one: run by test_gemma4_training.

`XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/sharded_gemma4.py`
"""

import gemma4_shapes
import jax
import numpy as np
import tiny_models
from sharded_run import Groups, Packed, V, imitate, reinforce
from toy_training import assert_same_weights

from helpers.model import lora
from helpers.runtime.mesh import make_mesh
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

SHAPE = gemma4_shapes.SMALL | {
    "vocab_size": V,
    "full_head_dim": 8,
    "head_dim": 4,
    "ff": 24,
}


def train(objective, batches, devices, adapted):
    model = tiny_models.of_config(gemma4_shapes.config(**SHAPE))
    if adapted:
        model = tiny_models.adapted(lora.quantize(model))
    mesh = make_mesh(jax.devices()[:devices])
    trainer = Trainer(model, objective, adamw(1e-3), mesh=mesh, log=False)
    return trainer, model, [row["loss"] for row in trainer.fit(batches, 2)]


def main():
    """SFT of all weights, and policy gradients of adapters beside int8."""
    for objective, source, adapted in (
        (imitate, Packed, False),
        (reinforce, Groups, True),
    ):
        trainer, many, losses = train(objective, source(), 8, adapted)
        _, alone, expected = train(objective, source(), 1, adapted)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert_same_weights(many, alone, rtol=1e-4, atol=2e-4)
        cut = {
            name: x.addressable_shards[0].data.shape != x.shape
            for name, x in trainer.named_arrays().items()
            if "vectors" in name or "gate" in name
        }
        assert all(cut.values()) and cut, cut
    print("ok")


if __name__ == "__main__":
    main()
