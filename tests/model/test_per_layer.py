"""Gemma 4's per-layer table computes the same from the host's memory."""

import gemma4_shapes
import jax
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.generation.sampling import generate, row_keys
from helpers.model import lora, weights
from helpers.model.gemma4 import keep_on_host
from helpers.runtime.sharding import make_mesh
from helpers.training.objectives import sft
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOKENS = np.random.default_rng(0).integers(2, tiny_models.VOCAB, (3, 7))
SHAPE = {"kinds": "f", "per_layer": 8}


@pytest.fixture(scope="module")
def both():
    """A small Gemma 4 with adapters, and the same with its table on the host."""
    config = gemma4_shapes.config(**SHAPE)
    model = tiny_models.adapted(tiny_models.of_config(config), targets=("q", "down"))
    return model, keep_on_host(model)


def test_answers_are_the_same(both):
    model, moved = both
    assert moved.per_layer.host_vectors[...].sharding.memory_kind == "pinned_host"
    assert not hasattr(model.per_layer, "host_vectors")  # the first stays as it was
    keys, limits = row_keys(jax.random.key(0), 0, 3, 2), {"max_tokens": 3}
    given = TOKENS, np.ones_like(TOKENS), keys
    answers = [generate(m, *given, **limits, eos_ids=(1,)) for m in both]
    jax.tree.map(np.testing.assert_array_equal, *answers)


def test_an_update_is_the_same_and_leaves_the_table_on_the_host(both):
    batch = tiny_models.flat_batch(TOKENS.tolist())
    trained = [nnx.merge(*nnx.split(model)) for model in both]
    for model in trained:
        model.remat = "none"  # compiles faster
        mesh = make_mesh(jax.devices()[:1])
        trainer = Trainer(model, sft(), adamw(1e-2), mesh=mesh, log=False)
        trainer.fit(tiny_models.Same(batch), 1)
    arrays = [jax.tree.leaves(nnx.state(model, lora.Adapter)) for model in trained]
    for first, second in zip(*arrays, strict=True):
        np.testing.assert_array_equal(first, second)
    table = trained[1].per_layer.host_vectors[...]
    assert table.sharding.memory_kind == "pinned_host"


def test_it_is_saved_like_any_table_and_never_trained(tmp_path, both):
    model, moved = map(lora.remove, both)
    weights.save(moved, tmp_path)
    again = weights.load(tmp_path).per_layer.vectors[...]
    np.testing.assert_array_equal(again, model.per_layer.vectors[...])
    state = nnx.to_flat_state(nnx.state(moved, lora.trainable(moved)))
    paths = [path for path, _ in state]
    assert ("per_layer", "norm") in paths
    assert ("per_layer", "host_vectors") not in paths
    for other in (moved, tiny_models.cached_model("qwen3")):
        with pytest.raises(ValueError, match="no per-layer table in the chip's memory"):
            keep_on_host(other)
