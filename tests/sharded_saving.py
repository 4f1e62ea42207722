"""Adapted and quantized models on 8 simulated devices: logits and files of one.

Run by `sharded.py saving`.
"""

import functools
import pathlib
import tempfile
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors.numpy import load_file
from tiny_models import adapted, texts
from tiny_models import model as make

from helpers.model import lora, weights
from helpers.runtime.sharding import make_mesh, place

SIZES = {"vocab": 32, "width": 16, "ff": 32, "head_dim": 8}


def made(dtype, kind):
    model = make("qwen3", dtype=dtype, **SIZES)
    model = lora.quantize(model, kind)
    model.activations = "float32"
    return adapted(model, 0.15, targets=("q", "o", "down"))


def spread(model, mesh):
    graph, state = nnx.split(model)
    return nnx.merge(graph, place(state, mesh))


def equal(ours, theirs):
    """Files of the same names, and the same numbers but for a last digit."""
    names = sorted(path.name for path in theirs.iterdir())
    assert names == sorted(path.name for path in ours.iterdir())
    for name in names:
        if not name.endswith(".safetensors"):
            assert (ours / name).read_bytes() == (theirs / name).read_bytes()
            continue
        one, other = load_file(theirs / name), load_file(ours / name)
        assert one.keys() == other.keys()
        for key, x in one.items():
            assert x.dtype == other[key].dtype
            unit = float(jnp.finfo(x.dtype).eps)
            pair = (y.astype(np.float32) for y in (other[key], x))
            np.testing.assert_allclose(*pair, rtol=unit, atol=1e-6, err_msg=key)


def save(model, folder):
    weights.save(model, folder / "model")
    weights.save(lora.merge(model), folder / "merged")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lora.save(model, folder / "adapters")


@functools.partial(jax.jit, static_argnums=0)
def _logits(graph, state, tokens):
    model = nnx.merge(graph, state)
    hidden, _ = model(tokens, jnp.arange(tokens.shape[-1])[None, None])
    return model.logits(hidden)


def logits(model):
    return np.asarray(_logits(*nnx.split(model), texts(1, 9)[None]), np.float32)


def off(result, expected):
    """How far the farthest logit is off, beside the largest."""
    return np.abs(result - expected).max() / np.abs(expected).max()


def check(dtype, kind, mesh, scratch):
    one = made(dtype, kind)
    expected = logits(one)
    save(one, scratch / "one")
    many = spread(one, mesh)
    assert len(many.layers.q.sharding.device_set) == 8
    near = 1e-5 if dtype == jnp.float32 else 21 / 256
    assert off(logits(many), expected) < 1e-5
    save(many, scratch / "many")
    for folder in "model", "merged", "adapters":
        equal(scratch / "many" / folder, scratch / "one" / folder)
    # Adapters go onto a base that lies on eight devices, as a later stage begins.
    again = lora.load(lora.remove(many), scratch / "one" / "adapters")
    assert off(logits(again), expected) < 1e-5
    merged = lora.merge(many)
    for name in lora.ATTENTION + lora.MLP:
        ours = getattr(merged.layers, name)[...]
        shape = ours.sharding.shard_shape(ours.shape)
        assert np.prod(shape) * 8 == ours.size, f"merged {name} is not in 8 parts"
    back = weights.load(
        scratch / "many" / "model", mesh=mesh, dtype=dtype, activations="float32"
    )
    assert off(logits(back), expected) < near


def main():
    ways = [
        (jnp.float32, "int8", make_mesh(model=2)),
        (jnp.bfloat16, "nf4 double", make_mesh()),
    ]
    for way in ways:
        with tempfile.TemporaryDirectory() as scratch:
            check(*way, pathlib.Path(scratch))
