"""Gemma 4 trained and saved on 8 devices as on one: run by test_gemma4_training.

`XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/sharded_gemma4.py`
"""

import tempfile

import gemma4_shapes
import jax
import numpy as np
import tiny_models
from flax import nnx
from sharded_run import Groups, Packed, V, imitate, reinforce
from toy_training import assert_same_weights

from helpers.model import lora, weights
from helpers.runtime.mesh import make_mesh
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

SHAPE = gemma4_shapes.SMALL | {
    "vocab_size": V,
    "full_head_dim": 8,
    "head_dim": 4,
    "ff": 24,
}


def train(objective, batches, devices, adapted, tensor=1):
    model = tiny_models.of_config(gemma4_shapes.config(**SHAPE))
    if adapted:
        model = tiny_models.adapted(lora.quantize(model))
    mesh = make_mesh(jax.devices()[:devices], tensor)
    trainer = Trainer(model, objective, adamw(1e-3), mesh=mesh, log=False)
    return trainer, model, [row["loss"] for row in trainer.fit(batches, 2)]


def check_saved(model, alone, adapted):
    """The folder that eight devices write holds what one device trained."""
    with tempfile.TemporaryDirectory() as folder:
        if adapted:
            lora.save(model, folder)
            read = lora.load(lora.remove(alone), folder)
        else:
            weights.save(model, folder)
            read = weights.load(folder)
        written, held = (nnx.state(each) for each in (read, model))
        jax.tree.map(np.testing.assert_array_equal, written, held)


def main():
    """SFT of all weights, and policy gradients of adapters beside int8."""
    for objective, source, adapted in (
        (imitate, Packed, False),
        (reinforce, Groups, True),
    ):
        trainer, many, losses = train(objective, source(), 8, adapted)
        _, alone, expected = train(objective, source(), 1, adapted)
        _, halves, of_halves = train(objective, source(), 8, adapted, tensor=2)
        for model, found in ((many, losses), (halves, of_halves)):
            np.testing.assert_allclose(found, expected, rtol=1e-4)
            assert_same_weights(model, alone, rtol=1e-4, atol=2e-4)
            check_saved(model, alone, adapted)
        cut = {
            name: x.addressable_shards[0].data.shape != x.shape
            for name, x in trainer.named_arrays().items()
            if "vectors" in name or "gate" in name
        }
        assert all(cut.values()) and cut, cut
    print("ok")


if __name__ == "__main__":
    main()
