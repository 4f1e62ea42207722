"""Gemma 4's per-layer table computes the same from the host's memory."""

import jax
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.batches import BatchSource
from helpers.generation.sampling import generate, row_keys
from helpers.model import lora, weights
from helpers.model.gemma4 import keep_on_host
from helpers.runtime.sharding import make_mesh
from helpers.training.objectives import policy_gradient
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOKENS = np.random.default_rng(0).integers(0, tiny_models.VOCAB, (3, 2, 7))


def both():
    """A small Gemma 4 with adapters, and the same with its table on the host."""
    model = tiny_models.adapted(tiny_models.cached_model("gemma4_text"))
    return model, keep_on_host(model)


def table(model):
    """The array of a table on the host."""
    return model.per_layer.host_vectors[...]


def test_rows_are_those_of_the_table():
    model, moved = both()
    assert table(moved).sharding.memory_kind == "pinned_host"
    found = jax.jit(lambda tokens: moved.per_layer.rows(tokens))(TOKENS)
    held = np.asarray(model.per_layer.vectors[...])
    np.testing.assert_array_equal(found, held[TOKENS])
    assert not hasattr(model.per_layer, "host_vectors")  # the first stays as it was


def test_answers_are_the_same():
    prompt = TOKENS[:, 0]
    said = [
        generate(
            model,
            prompt,
            np.ones_like(prompt),
            row_keys(jax.random.key(0), 0, len(prompt), 2),
            max_tokens=5,
            eos_ids=(1,),
        )
        for model in both()
    ]
    jax.tree.map(np.testing.assert_array_equal, *said)


def test_an_update_is_the_same_and_leaves_the_table_on_the_host():
    prompts, answers = tiny_models.random_groups()
    batch = tiny_models.group_batch(prompts, answers)
    batch |= {"advantages": np.linspace(-1, 1, 6).reshape(3, 2).astype(np.float32)}
    batch |= {"logprobs": np.zeros(batch["completion"].shape, np.float32)}

    class Same(BatchSource):
        metrics, samples = {}, []

        def __next__(self):
            return batch

        def get_state(self):
            return {}

    trained = []
    for model in both():
        mesh = make_mesh(jax.devices()[:1])
        trainer = Trainer(model, policy_gradient(), adamw(1e-2), mesh=mesh, log=False)
        trainer.fit(Same(), 1)
        trained.append(model)
    arrays = [jax.tree.leaves(nnx.state(model, lora.Adapter)) for model in trained]
    assert len(arrays[0]) > 10
    for first, second in zip(*arrays, strict=True):
        np.testing.assert_array_equal(first, second)
    assert table(trained[1]).sharding.memory_kind == "pinned_host"


def test_it_is_saved_like_any_table(tmp_path):
    model, moved = map(lora.remove, both())
    weights.save(moved, tmp_path)
    again = weights.load(tmp_path)
    held = np.asarray(model.per_layer.vectors[...])
    np.testing.assert_array_equal(again.per_layer.vectors[...], held)


def test_it_is_never_trained():
    _, moved = both()
    state = nnx.state(lora.remove(moved), lora.trainable(lora.remove(moved)))
    paths = [path for path, _ in nnx.to_flat_state(state)]
    assert ("per_layer", "norm") in paths
    assert ("per_layer", "host_vectors") not in paths


def test_a_model_without_such_a_table_is_refused():
    _, moved = both()
    for model in (moved, tiny_models.cached_model("qwen3")):
        with pytest.raises(ValueError, match="no per-layer table in the chip's memory"):
            keep_on_host(model)
