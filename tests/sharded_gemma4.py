"""Gemma 4 trained and saved on 8 devices as on one: run by test_gemma4_training.

`XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/sharded_gemma4.py`
"""

import re
import tempfile

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import tiny_models
from flax import nnx
from sharded_run import Groups, Packed, V, imitate, reinforce
from toy_training import assert_same_weights

from helpers.model import lora, weights
from helpers.runtime.sharding import gathered, make_mesh, spread, using
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
            lora.save(model, folder, "google/gemma-4-E2B-it")
            read = lora.load(lora.remove(alone), folder)
        else:
            weights.save(model, folder)
            read = weights.load(folder)
        written, held = (nnx.state(each) for each in (read, model))
        jax.tree.map(np.testing.assert_array_equal, written, held)


def check_looked_up(model):
    """Single rows of the per-layer table are sent, and never the table."""
    table, (graph, state) = model.per_layer.vectors[...], nnx.split(model.per_layer)
    tokens = np.arange(16).reshape(8, 1, 2) % V

    @jax.jit
    def look_up(state, tokens):
        whole = gathered({"per_layer": state}, jnp.float32)["per_layer"]
        return spread(nnx.merge(graph, whole).rows(tokens))

    with using(state):
        program = look_up.lower(state, tokens).compile()
        found = program(state, tokens)
    np.testing.assert_array_equal(found, np.asarray(table)[tokens])
    held = {shape for _, shape in gathers(program.as_text())}
    assert table.shape not in held, held


def gathers(text):
    """(kind, shape) of what is gathered or added up between devices in a program."""
    found = re.findall(r"= \w+\[([\d,]*)\]\S* (all-gather|all-reduce)\(", text)
    return {(kind, tuple(map(int, sizes.split(",")))) for sizes, kind in found if sizes}


def main():
    """SFT of all weights, and policy gradients of adapters beside int8.

    One over all devices, the other with its matrices cut over two of them as well.
    """
    for objective, source, adapted, tensor in (
        (imitate, Packed, False, 1),
        (reinforce, Groups, True, 2),
    ):
        trainer, many, losses = train(objective, source(), 8, adapted, tensor)
        _, alone, expected = train(objective, source(), 1, adapted)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert_same_weights(many, alone, rtol=1e-4, atol=2e-4)
        check_saved(many, alone, adapted)
        cut = {
            name: x.addressable_shards[0].data.shape != x.shape
            for name, x in trainer.named_arrays().items()
            if "vectors" in name or "gate" in name
        }
        assert all(cut.values()) and cut, cut
        check_looked_up(many)
    print("ok")


if __name__ == "__main__":
    main()
