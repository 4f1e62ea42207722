"""Gemma 4's own: its config.json in every spelling, stacks, folders, adapters."""

import json

import gemma4_shapes
import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from test_model import forward

from helpers.model import lora, weights
from helpers.model.config import ModelConfig
from helpers.model.gemma4 import spans_of
from helpers.model.transformer import named_arrays

SMALL = gemma4_shapes.config(**gemma4_shapes.SMALL)


def assert_same(one, other):
    pairs = zip(*(named_arrays(nnx.state(m)) for m in (one, other)), strict=True)
    for (path, x), (_, y) in pairs:
        np.testing.assert_array_equal(x, y, err_msg=path)


def test_full_layers_are_read_as_either_release_of_transformers_writes_them():
    hf = SMALL.to_hf()
    del hf["global_head_dim"], hf["num_global_key_value_heads"]
    new = {str(layer): {"head_dim": 10} for layer in (1, 3, 5)}
    assert ModelConfig.from_hf(hf | {"per_layer_config": new}) == SMALL
    few = {layer: sizes | {"num_key_value_heads": 1} for layer, sizes in new.items()}
    read = ModelConfig.from_hf(hf | {"per_layer_config": few})
    assert read.gemma4.full_kv_heads == 1


def test_what_a_text_config_leaves_out_is_what_transformers_assumes():
    read = ModelConfig.from_hf({"model_type": "gemma4_text", "num_hidden_layers": 8})
    assert (read.width, read.ff, read.heads, read.kv_heads) == (2304, 9216, 8, 4)
    assert (read.window, read.rope_theta, read.rope_local_theta) == (512, 1e6, 1e4)
    assert (read.stretch.kind, read.stretch.share) == ("proportional", 0.25)
    gemma4 = read.gemma4
    assert gemma4.kinds == (*["local"] * 5, "full", "local", "full")
    assert (gemma4.full_head_dim, gemma4.full_kv_heads, gemma4.per_layer) == (
        512,
        4,
        256,
    )
    assert (gemma4.sharing, gemma4.softcap, gemma4.double_wide) == (0, 0.0, False)


@given(gemma4_shapes.together())
def test_spans_are_all_layers_in_their_order(shape):
    config = gemma4_shapes.config(**shape).gemma4
    walked = []
    for span in spans_of(config):
        assert span.first == len(walked) and span.repeats and span.local + span.full
        group = ["local"] * span.local + ["full"] * span.full
        prefix = "sharing_" if span.shares else ""
        walked += [prefix + kind for kind in group] * span.repeats
    assert walked == [config.stack_of(i) for i in range(len(config.kinds))]
    stacked = [layer for layers in config.stacks.values() for layer in layers]
    assert sorted(stacked) == list(range(len(config.kinds)))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(gemma4_shapes.together((4, 2)), st.integers(1, 9), st.integers(0, 99))
def test_any_switches_give_the_transcription_in_two_pieces(shape, cut, seed):
    model = tiny_models.of_config(gemma4_shapes.config(**shape), seed)
    tensors, hf = tiny_models.tensors(model)
    tokens = tiny_models.texts(1, 10, seed)
    expected = naive_decoder.logits(tensors, hf, tokens[0].tolist())
    positions, earlier, parts = np.arange(10)[None, None], [], []
    for here in (slice(0, cut), slice(cut, 10)):
        _, logits, kv = forward(
            model, tokens[:, None, here], positions[..., here], earlier=earlier
        )
        earlier.append(kv)
        parts.append(logits)
    logits = np.concatenate(parts, axis=2)
    np.testing.assert_allclose(logits[0, 0], expected, atol=5e-5)


def test_layers_that_share_keep_no_keys():
    model = tiny_models.cached_model("gemma4_text")
    tokens = jnp.zeros((1, 1, 5), jnp.int32)
    graph, state = nnx.split(model)
    _, kv = jax.eval_shape(lambda s: nnx.merge(graph, s)(tokens, tokens), state)
    assert {kind: keys.shape for kind, keys in kv.keys.items()} == {
        "local": (2, 1, 1, 2, 6, 5),
        "full": (2, 1, 1, 2, 10, 5),
    }
    assert kv.values["full"].shape == (2, 1, 1, 2, 5, 10)
    assert not hasattr(model.layers.sharing_full, "k")


def test_the_hubs_folder_is_read_with_its_towers_and_needless_keys(tmp_path):
    """Other parts' tensors are passed over, and shared layers' keys; no others."""
    model = tiny_models.cached_model("gemma4_text")
    weights.save(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    text = {
        name.replace("model.", "model.language_model.", 1): x
        for name, x in tensors.items()
    }
    beside = {"model.vision_tower.patch_embedder.input_proj.weight": np.ones((2, 2))}
    beside |= {"model.audio_tower.layers.0.x": np.ones(2)}
    beside |= {"model.embed_vision.embedding_projection.weight": np.ones((2, 2))}
    shared = "model.language_model.layers.4.self_attn.k_proj.weight"
    beside |= {shared: np.ones((12, 16))}
    save_file(text | beside, tmp_path / "model.safetensors")
    whole = {"model_type": "gemma4", "text_config": SMALL.to_hf()}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    assert_same(weights.load(tmp_path), model)
    strange = {shared.replace("layers.4", "layers.9"): np.ones((12, 16))}
    save_file(text | strange, tmp_path / "model.safetensors")
    with pytest.raises(weights.WeightsError, match=r"no place for.*layers\.9"):
        weights.load(tmp_path)


def test_adapters_stand_beside_the_matrices_there_are_and_come_back(tmp_path):
    base = tiny_models.cached_model("gemma4_text")
    adapted = tiny_models.adapted(base)
    assert adapted.layers.full.adapters == lora.ATTENTION + lora.MLP
    assert adapted.layers.sharing_local.adapters == ("q", "o", *lora.MLP)
    lora.save(adapted, tmp_path, "google/gemma-4-E2B-it")
    assert_same(lora.load(base, tmp_path), adapted)
    stored = load_file(tmp_path / "adapter_model.safetensors")
    assert len(stored) == 2 * (4 * 7 + 2 * 5)
    some = {k: x for k, x in stored.items() if ".5." not in k}
    save_file(some, tmp_path / "adapter_model.safetensors")
    with pytest.raises(weights.WeightsError, match=r"layers\.5.*none"):
        lora.load(base, tmp_path)


WALKED = [
    ({"kinds": "lffllf", "sharing": 2, "per_layer": 8}, None),
    ({"kinds": "fff", "sharing": 1}, None),
    ({"kinds": "lf", "keys_are_values": True, "full_kv_heads": 1}, "int8"),
]


@pytest.mark.parametrize("shape, stored", WALKED)
def test_a_token_walked_layer_by_layer_is_that_of_the_scan(shape, stored, monkeypatch):
    """Hidden states, keys and values, after a prompt that a group shares."""
    model = tiny_models.of_config(gemma4_shapes.config(**shape))
    if stored:
        model = tiny_models.adapted(lora.quantize(model, stored))
    rng = np.random.default_rng(0)
    prompt, token = rng.integers(2, 19, (2, 1, 9)), rng.integers(2, 19, (2, 3, 1))
    _, _, prefix = forward(model, prompt)
    both = tiny_models.walked_both_ways(model, token, 9, prefix, monkeypatch)
    for ours, theirs in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
