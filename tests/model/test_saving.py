"""What is saved is what was computed, however the model was made."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import tiny_vision
from flax import nnx
from safetensors.numpy import load_file
from test_model import forward
from test_nf4 import in_numpy
from tiny_models import adapted, config, texts
from tiny_models import model as make

from helpers.model import lora, quantized, weights
from helpers.model.transformer import named_arrays
from helpers.model.weights import WeightsError

TOKENS = texts(2, 9)
SEEING = np.array([[2, 3, *tiny_vision.PICTURE, 4, 5]], np.int32)
PICTURES = tiny_vision.pictures(1)
EXACT, HALF = (jnp.float32, None), (jnp.bfloat16, jnp.float32)


def logits(model):
    if model.config.vision:
        seen = tiny_vision.see(model, PICTURES)
        return np.asarray(tiny_vision.forward(model, SEEING, seen)[1], np.float32)
    return np.asarray(forward(model, TOKENS[:, None])[1], np.float32)


def content(model):
    """Everything a model is: its settings, and each array's bits."""
    arrays = {path: np.array(x) for path, x in named_arrays(nnx.state(model))}
    settings = model.config, model.activations, model.layers.adapters
    settings = *settings, model.layers.adapter_scale
    return settings, {path: (x.dtype, x.tobytes()) for path, x in arrays.items()}


def made(family, dtypes, targets, stored):
    """A model of one of the ways there are; of dtypes (weights, activations).

    `stored` is how matrices are, and whether before or after adapting.
    """
    (kind, when), (dtype, activations) = stored, dtypes
    if family == "seeing":
        model = tiny_vision.model(dtype=dtype)
    else:
        model = make(family, dtype=dtype)
    model.activations = jnp.dtype(activations or dtype).name
    if when == "before":
        return adapted(lora.quantize(model, kind), 0.15, targets=targets)
    return lora.quantize(adapted(model, 0.15, targets=targets), kind)


def reloaded(model, folder):
    """The model that its saved folder gives."""
    weights.save(model, folder)
    return weights.load(
        folder,
        vision=bool(model.config.vision),
        dtype=model.embed.dtype,
        activations=model.activations,
    )


SOME, ALL = ("v", "o", "down"), lora.ATTENTION + lora.MLP


WAYS = [
    ("gemma3_text", EXACT, SOME, ("int8", "before")),
    ("llama", HALF, ALL, ("nf4", "after")),
    ("seeing", EXACT, SOME, ("nf4 double", "before")),
]


@pytest.mark.parametrize("family, dtypes, targets, stored", WAYS)
def test_what_is_loaded_computes_what_was_saved(
    tmp_path, family, dtypes, targets, stored
):
    """float32 to its rounding. In bfloat16 every entry of a merged matrix is off by up
    to 1/256 of it; a text passes 7 of them in each of 3 layers. A lost adapter changes
    the logits by a third of the largest, or more.
    """
    model = made(family, dtypes, targets, stored)
    before, expected = content(model), logits(model)
    back = reloaded(model, tmp_path / "saved")
    assert content(model) == before
    tolerance = 21 / 256 if dtypes is HALF else 1e-5
    off = np.abs(logits(back) - expected).max()
    assert off < tolerance * np.abs(expected).max()
    base = lora.merge(lora.remove(model))
    assert np.abs(logits(base) - expected).max() > 0.25 * np.abs(expected).max()
    merged = lora.merge(model)
    assert content(model) == before
    assert content(merged) == content(back)


@pytest.mark.parametrize(
    "kind, dtype",
    [("int8", jnp.float32), ("nf4", jnp.bfloat16), ("nf4 double", jnp.float32)],
)
def test_the_file_has_base_times_scale_plus_the_adapters_product(dtype, kind, tmp_path):
    """Each entry, in NumPy's float64, and then rounded once."""
    model = made("llama", (dtype, None), ("k", "down"), (kind, "before"))
    weights.save(model, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    ours = {name: np.asarray(x) for (*_, name), x in layers(model)}
    for name, theirs in [("k", "self_attn.k_proj"), ("up", "mlp.up_proj")]:
        for layer in range(model.config.layers):
            parts = {
                end: ours[name + end][layer]
                for end in ("", *quantized.ENDS)
                if name + end in ours
            }
            if kind == "int8":
                expected = parts[""] * parts["_scale"].astype(np.float64)
            else:
                expected = in_numpy(parts)
            if name == "k":
                a, b = (ours[f"k_{x}"][layer].astype(np.float64) for x in "ab")
                expected += 2 * a @ b
            merged = stored[f"model.layers.{layer}.{theirs}.weight"]
            assert merged.dtype == dtype
            unit = float(jnp.finfo(dtype).eps)
            off = np.abs(merged.astype(np.float64).T - expected)
            assert (off <= unit * np.abs(expected) + 1e-6).all()
    config = weights.read_config(tmp_path)
    assert config["torch_dtype"] == jnp.dtype(dtype).name


def layers(model):
    return [(p, x) for p, x in named_arrays(nnx.state(model)) if p[0] == "layers"]


def test_small_adapters_that_bfloat16_would_round_away_are_warned_of(tmp_path):
    base, some = make("qwen2", dtype=jnp.bfloat16), {"targets": ("q",)}
    with pytest.warns(UserWarning, match="to bfloat16, the weights lose more than 50%"):
        weights.save(adapted(base, noise=0.003, **some), tmp_path / "small")
    with pytest.warns(UserWarning, match="lora.save"):
        lora.merge(adapted(base, noise=0.003, **some))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights.save(adapted(base, noise=0.3, **some), tmp_path / "large")
        weights.save(lora.add(base, 3, **some), tmp_path / "fresh")  # nothing to lose
        exact = make("qwen2")
        weights.save(adapted(exact, noise=0.003, **some), tmp_path / "exact")


def test_what_a_folder_has_no_place_for_is_refused_by_name(tmp_path):
    model = make("llama")
    model.layers.extra = nnx.Param(jnp.ones(3))
    with pytest.raises(WeightsError, match="no place.*: layers/extra"):
        weights.save(model, tmp_path)
    del model.layers.extra
    model.layers.up = nnx.Param(model.layers.up[..., :-1])
    with pytest.raises(WeightsError, match=r"layers/up.*\(3, 16, 19\).*\(3, 16, 20\)"):
        weights.save(model, tmp_path)
    del model.layers.up
    with pytest.raises(WeightsError, match="are missing: layers/up"):
        weights.save(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_window_that_only_gemma_has_is_refused(tmp_path):
    model = make("qwen3")
    model.config = config("qwen3", window=4, pattern=2)
    with pytest.raises(WeightsError, match="qwen3.*no word for.*window.: 4"):
        weights.save(model, tmp_path)
