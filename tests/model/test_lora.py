"""LoRA: an adapted model against plain matrices, its base untouched, its folder."""

import contextlib
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_vision
from flax import nnx
from safetensors import safe_open
from safetensors.numpy import load_file
from small_disk import disk_of
from test_model import forward
from tiny_models import FEW_SHAPES, Same, adapted, cached_model, flat_batch, texts
from tiny_models import model as make

from helpers.model import lora, quantized, weights
from helpers.model.weights import WeightsError
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer

TOKENS = texts(2, 9)


def logits(model):
    return np.asarray(forward(model, TOKENS[:, None])[1])


def trained(family="gemma3_text", **settings):
    """An adapted model whose adapters are random, not zero."""
    return adapted(cached_model(family), **settings)


def test_fresh_adapters_change_nothing_and_merged_ones_the_same():
    base = cached_model("qwen2")
    np.testing.assert_allclose(logits(lora.add(base, 3)), logits(base), atol=1e-5)
    model = trained("qwen2")
    assert np.abs(logits(model) - logits(base)).max() > 0.1
    np.testing.assert_allclose(logits(lora.merge(model)), logits(model), atol=2e-5)
    np.testing.assert_allclose(logits(lora.remove(model)), logits(base), atol=1e-5)


def test_training_moves_the_adapters_only_and_base_arrays_are_shared():
    base = cached_model("qwen2")
    before = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(base)))
    model = lora.add(base, 2, targets=lora.ATTENTION)
    batch = flat_batch(TOKENS.tolist())
    trainer = Trainer(model, objectives.sft(), optimizers.adamw(1e-2), log=False)
    table = trainer.fit(Same(batch), steps=20)
    assert table[-1]["loss"] < 0.8 * table[0]["loss"]
    trained_count = sum(x.size for x in jax.tree.leaves(trainer.state.params))
    moments = [x for x in jax.tree.leaves(trainer.state.opt_state) if x.ndim]
    assert sum(x.size for x in moments) == 2 * trained_count
    layers = base.layers
    shapes = [w.shape for w in (layers.q, layers.k, layers.v, layers.o)]
    assert trained_count == sum(L * 2 * (rows + out) for L, rows, out in shapes)
    after = nnx.to_pure_dict(nnx.state(lora.remove(model)))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize("kind", quantized.KINDS)
def test_a_quantized_matrix_is_off_by_at_most_half_a_step_and_takes_adapters(kind):
    """Of the largest of its column, which is a block here; the scale's step besides.

    Quantized before or after adapters are added, the model is the same.
    """
    base = cached_model("llama", **FEW_SHAPES)
    small = lora.quantize(base, kind)
    share, dtype = (1 / 254, "int8") if kind == "int8" else (0.152, "uint8")
    for name in lora.ATTENTION + lora.MLP:
        exact = np.asarray(getattr(base.layers, name)[...])
        largest = np.abs(exact).max(axis=1, keepdims=True)
        off = np.abs(np.asarray(small.layers.weight(name)) - exact)
        assert getattr(small.layers, name)[...].dtype == dtype
        assert quantized.shape(small.layers, name) == exact.shape
        of_scale = largest.max() / 254 if kind == "nf4 double" else 0
        assert (off <= (share * largest + of_scale) * 1.001).all()
    gap = np.abs(logits(small) - logits(base))
    most = 0.1 if kind == "int8" else 1
    assert 0 < gap.max() < most * np.abs(logits(base)).max()
    before, after = adapted(small), lora.quantize(adapted(base), kind)
    np.testing.assert_allclose(logits(before), logits(after), atol=1e-5)
    paths = [p for p, _ in nnx.to_flat_state(nnx.state(before, nnx.Param))]
    assert not [path for path in paths if "q" in path]


def test_adapters_learn_beside_codes_as_beside_what_they_stand_for():
    small = lora.quantize(make("qwen2", dtype=jnp.bfloat16), "int8")
    small.activations = "float32"
    plain = lora.merge(small)
    for name in lora.ATTENTION + lora.MLP:  # as the decoded matrices are
        setattr(plain.layers, name, nnx.Param(small.layers.weight(name)))
    batch, loss = flat_batch(TOKENS.tolist()), objectives.sft()

    def gradients(base):
        model = adapted(base, targets=("q", "down"))
        graph, params, rest = nnx.split(model, lora.trainable(model), ...)
        of = jax.grad(lambda p: loss(nnx.merge(graph, p, rest), batch)[0])(params)
        return {path: np.asarray(x[...]) for path, x in nnx.to_flat_state(of)}

    ours, expected = gradients(small), gradients(plain)
    assert ours.keys() == expected.keys() and len(ours) == 4
    for path, x in ours.items():
        assert np.abs(x).max() > 1e-3
        np.testing.assert_allclose(x, expected[path], rtol=1e-4, atol=1e-6)


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


@pytest.mark.parametrize("base", ["google/gemma-4-E2B-it", "with towers", "of texts"])
def test_adapters_of_a_text_half_are_named_as_in_the_base_that_transformers_opens(
    base, tmp_path
):
    """With its towers, whose matrices have the same names, and get no adapters."""
    model = trained("gemma4_text", targets=("q", "down"))
    if base.startswith("with"):
        (tmp_path / "base").mkdir()
        config = {"model_type": "gemma4", "text_config": {}}
        (tmp_path / "base" / "config.json").write_text(json.dumps(config))
        base = tmp_path / "base"
    elif base.startswith("of"):
        base = tmp_path / "base"
        weights.save(model, base)
    folder = tmp_path / "adapters"
    lora.save(model, folder, base=base)
    settings = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    of_texts = (tmp_path / "base" / "model.safetensors").exists()
    inside = "model." if of_texts else "model.language_model."
    assert all(name.startswith(f"base_model.model.{inside}layers.") for name in tensors)
    excluded = settings.get("exclude_modules")
    assert (excluded is None) == of_texts
    for tower in ("vision_tower.encoder", "audio_tower"):
        name = f"model.{tower}.layers.0.self_attn.q_proj"
        assert of_texts or re.fullmatch(excluded, name)
    back = lora.load(lora.remove(model), folder)
    for ours, theirs in zip(
        *map(jax.tree.leaves, map(nnx.state, (model, back))), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [None, "nf4 double"])
def test_what_is_trainable_is_the_adapters_or_every_float_that_is_no_scale(kind):
    def names(model):
        state = nnx.state(model, lora.trainable(model))
        return {path[-1] for path, _ in nnx.to_flat_state(state)}

    base = cached_model("qwen2", **FEW_SHAPES)
    frozen = lora.quantize(base, kind) if kind else base
    matrices = {*lora.ATTENTION, *lora.MLP}
    outside = {"embed", "head", "final_norm", "attention_norm", "ff_norm"}
    outside |= {"q_bias", "k_bias", "v_bias"}
    assert names(frozen) == (outside if kind else outside | matrices)
    adapted = lora.add(frozen, 2, targets=("q", "up"))
    assert names(adapted) == {"q_a", "q_b", "up_a", "up_b"}
    graph, params, rest = nnx.split(adapted, lora.trainable(adapted), ...)
    assert len(jax.tree.leaves(params)) == 4
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(params))
    counted = nnx.eval_shape(lambda: lora.add(base, 2))  # also without numbers
    assert nnx.LoRAParam is lora.trainable(counted)


@pytest.mark.parametrize(
    ("kind", "stored"), [("llama", None), ("bfloat16", "nf4"), ("seeing", None)]
)
def test_the_folder_beside_its_base_is_the_merged_model(kind, stored, tmp_path):
    """By PEFT's formula, W + lora_alpha / r · B A, on the base that is saved beside."""
    base = {
        "llama": lambda: cached_model("llama"),
        "bfloat16": lambda: make("qwen3", dtype=jnp.bfloat16),
        "seeing": lambda: tiny_vision.cached_model(),
    }[kind]()
    model = lora.quantize(base, stored) if stored else base
    model = adapted(model, targets=("v", "down"))
    warned = pytest.warns(UserWarning, match=f"beside {stored} .*base that they fit")
    with warned if stored else contextlib.nullcontext():
        lora.save(model, tmp_path / "adapters")
    weights.save(lora.remove(model), tmp_path / "base")
    weights.save(model, tmp_path / "merged")
    path = tmp_path / "adapters" / "adapter_model.safetensors"
    with safe_open(path, "numpy") as file:
        assert file.metadata().get("base") == quantized.KINDS.get(stored)
    settings = json.loads((path.parent / "adapter_config.json").read_text())
    tensors = {
        name.removeprefix("base_model.model."): x for name, x in load_file(path).items()
    }
    expected, merged = (
        load_file(tmp_path / name / "model.safetensors") for name in ("base", "merged")
    )
    for name in [name for name in tensors if "lora_A" in name]:
        a, b = tensors[name], tensors[name.replace("lora_A", "lora_B")]
        assert a.dtype == b.dtype == np.float32
        name = name.replace("lora_A.", "")
        if kind == "seeing":  # inside the model it has another name than in its folder
            name = name.replace("model.language_model", "language_model.model")
        change = settings["lora_alpha"] / settings["r"] * (b @ a)
        expected[name] = expected[name].astype(np.float32) + change
    assert (
        len(tensors) == 2 * 2 * base.config.layers and expected.keys() == merged.keys()
    )
    # In bfloat16 the saved base is rounded, and so is the merged model.
    tolerance = dict.fromkeys(("rtol", "atol"), 1 / 128 if kind == "bfloat16" else 1e-5)
    for name, x in merged.items():
        theirs = expected[name].astype(np.float32)
        np.testing.assert_allclose(x.astype(np.float32), theirs, **tolerance)


def test_adapters_of_a_folder_are_there_whole_or_not_at_all(tmp_path):
    old = trained("llama", targets=("q",))
    lora.save(old, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with disk_of(len(before["adapter_model.safetensors"]) - 1):
        with pytest.raises(WeightsError, match="could not be written"):
            lora.save(trained("llama", targets=("q", "up")), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_cannot_be_adapted_is_said():
    base, small = cached_model(), lora.quantize(cached_model(), "int8")
    for call, message in (
        (
            lambda: lora.add(base, 2, targets=("q", "embed")),
            r"\['embed', 'q'\].*'down'",
        ),
        (lambda: lora.add(base, 2, targets=()), "choose of"),
        (lambda: lora.add(base, 2, alpha=0), "alpha=0"),
        (lambda: lora.add(base, 0), "rank=.*: pass a whole number from 1"),
        (lambda: lora.add(trained(targets=("up", "q")), 2), "on q, up already.*merge"),
        (lambda: lora.quantize(small, "nf4"), "int8 already.*scales would be lost"),
        (lambda: lora.quantize(base, "int4"), "'int4'. Choose of int8, nf4, nf4 doub"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_adapters_of_another_base_are_refused_where_it_is_named(tmp_path, monkeypatch):
    """A base that is a folder goes by its place."""
    for base, same, other in (
        ("org/one", "org/one", "org/other"),
        (str(tmp_path / "base"), "base", "other"),
    ):
        for name in ("base", "other", "adapters"):
            (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path)
        folder = tmp_path / "adapters"
        lora.save(trained(), folder, base=base)
        for right in (same, None):
            assert lora.load(cached_model(), folder, base=right).layers.adapters
        with pytest.raises(WeightsError, match="trained on .*, not on .*other"):
            lora.load(cached_model(), folder, base=other)
