"""LoRA: an adapted model against plain matrices, its base untouched, its folder."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file
from test_model import forward
from tiny_models import FAMILIES, cached_model, flat_batch, texts

from helpers import chat, lessons, optimizers, runtime
from helpers.model import lora, weights
from helpers.tasks import word_problems
from helpers.trainer import Trainer
from scripts import int8_error

TOKENS = texts(2, 9)


def logits(model):
    return np.asarray(forward(model, TOKENS[:, None])[1])


def trained(family="gemma3_text", **settings):
    """An adapted model whose adapters are random, not zero."""
    model = lora.add(cached_model(family), 3, **settings)
    graph, adapters, rest = nnx.split(model, lora.Adapter, ...)
    keys = iter(jax.random.split(jax.random.key(1), 99))
    noisy = jax.tree.map(
        lambda x: 0.3 * jax.random.normal(next(keys), x.shape), adapters
    )
    return nnx.merge(graph, noisy, rest)


@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_adapters_change_nothing_and_merged_ones_the_same(family):
    base = cached_model(family)
    np.testing.assert_allclose(logits(lora.add(base, 2)), logits(base), atol=1e-5)
    model = trained(family)
    assert np.abs(logits(model) - logits(base)).max() > 0.1
    np.testing.assert_allclose(logits(lora.merge(model)), logits(model), atol=2e-5)
    np.testing.assert_allclose(logits(lora.remove(model)), logits(base), atol=1e-5)


def test_the_merged_matrix_is_base_plus_scaled_product():
    model = trained(targets=("q", "down"), alpha=12)
    merged = lora.merge(model)
    for name in ("q", "down"):
        a, b = (
            np.asarray(getattr(model.layers, f"{name}_{part}")[...]) for part in "ab"
        )
        expected = np.asarray(getattr(cached_model().layers, name)[...])
        expected = expected + 12 / 3 * np.stack(
            [x @ y for x, y in zip(a, b, strict=True)]
        )
        found = getattr(merged.layers, name)[...]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(merged.layers.up[...], cached_model().layers.up[...])


def test_training_moves_the_adapters_only_and_base_arrays_are_shared():
    base = cached_model()
    before = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(base)))
    model = lora.add(base, 2, targets=lora.ATTENTION)
    batch = {name: x[:, :] for name, x in flat_batch(TOKENS.tolist()).items()}

    class Source:
        metrics, samples = {}, []

        def __next__(self):
            return batch

        def get_state(self):
            return {}

    trainer = Trainer(model, lessons.sft(), optimizers.adamw(1e-2), log=False)
    table = trainer.fit(Source(), steps=20)
    assert table[-1]["loss"] < 0.8 * table[0]["loss"]
    trained_count = sum(x.size for x in jax.tree.leaves(trainer.state.params))
    moments = [x for x in jax.tree.leaves(trainer.state.opt_state) if x.ndim]
    assert sum(x.size for x in moments) == 2 * trained_count
    assert trained_count == sum(
        np.prod(w.shape[:1]) * 2 * (w.shape[1] + w.shape[2])
        for w in (base.layers.q, base.layers.k, base.layers.v, base.layers.o)
    )
    after = nnx.to_pure_dict(nnx.state(lora.remove(model)))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize("family", FAMILIES)
def test_int8_is_off_by_at_most_half_a_step_and_takes_adapters(family):
    base = cached_model(family)
    small = lora.quantize(base)
    for name in lora.ATTENTION + lora.MLP:
        exact = np.asarray(getattr(base.layers, name)[...])
        largest = np.abs(exact).max(axis=1, keepdims=True)
        off = np.abs(np.asarray(small.layers.weight(name)) - exact)
        assert getattr(small.layers, name)[...].dtype == jnp.int8
        assert (off <= largest / 254 * 1.001).all()
    gap = np.abs(logits(small) - logits(base))
    assert 0 < gap.max() < 0.1 * np.abs(logits(base)).max()
    adapted = lora.add(small, 2)
    np.testing.assert_allclose(logits(adapted), logits(small), atol=1e-5)
    assert not [
        p for p, _ in nnx.to_flat_state(nnx.state(adapted, nnx.Param)) if "q" in p
    ]


def test_int8_hardly_changes_what_a_trained_model_says():
    folder = runtime.ROOT / "data" / "tiny" / "grpo"
    tokenizer, exact = chat.load_tokenizer(folder), weights.load(folder)
    problems = word_problems.generate(20, seed=3, levels=(3,), split="test")
    models = exact, lora.quantize(exact)
    large_TV, small_TV = (int8_error.read(m, tokenizer, problems) for m in models)
    assert len(large_TV) > 800 and np.abs(large_TV).max() > 5
    assert 0 < np.abs(large_TV - small_TV).max() < 0.5
    assert (large_TV.argmax(axis=-1) == small_TV.argmax(axis=-1)).mean() > 0.99


def test_the_folder_is_what_peft_documents(tmp_path):
    model = trained("llama", targets=("q", "gate"), alpha=6)
    lora.save(model, tmp_path, base="meta-llama/Llama-3.2-1B")
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["target_modules"] == ["gate_proj", "q_proj"]
    assert (settings["r"], settings["lora_alpha"]) == (3, 6.0)
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
    np.testing.assert_array_equal(tensors[name], model.layers.q_a[1].T)
    assert len(tensors) == 2 * 2 * model.config.layers


@pytest.mark.parametrize("small", [False, True])
def test_what_is_trainable_is_the_adapters_or_every_float_that_is_no_scale(small):
    def names(model):
        state = nnx.state(model, lora.trainable(model))
        return {path[-1] for path, _ in nnx.to_flat_state(state)}

    base = cached_model("qwen2")
    frozen = lora.quantize(base) if small else base
    matrices = {*lora.ATTENTION, *lora.MLP}
    outside = {"embed", "head", "final_norm", "attention_norm", "ff_norm"}
    outside |= {"q_bias", "k_bias", "v_bias"}
    assert names(frozen) == (outside if small else outside | matrices)
    adapted = lora.add(frozen, 2, targets=("q", "up"))
    assert names(adapted) == {"q_a", "q_b", "up_a", "up_b"}
    graph, params, rest = nnx.split(adapted, lora.trainable(adapted), ...)
    assert len(jax.tree.leaves(params)) == 4
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(params))
    counted = nnx.eval_shape(lambda: lora.add(base, 2))  # also without numbers
    assert nnx.LoRAParam is lora.trainable(counted)


def test_what_cannot_be_adapted_is_said():
    with pytest.raises(ValueError, match=r"\['embed'\]"):
        lora.add(cached_model(), 2, targets=("q", "embed"))
    with pytest.raises(ValueError, match="rank 0"):
        lora.add(cached_model(), 0)
