"""Small random models of ours for the loaders of engines, and what they compute."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.model import ModelConfig, Transformer, weights
from helpers.model.ops import Stretch
from helpers.text import chat

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "data" / "tiny" / "sft"
LENGTH = 20  # tokens, more than a window
GEMMA = {
    # Tunix has this pattern and no other, and a loader of each of these shapes.
    "pattern": 6,
    "window": 8,
    "rope_theta": 1e6,
    "query_scale": 16.0,
}
# name: family, layers, the rest of its configuration.
SHAPES = {
    "qwen3": ("qwen3", 2, {"rope_theta": 1e6}),
    "qwen2": ("qwen2", 2, {"rope_theta": 1e6}),
    "gemma3": ("gemma3_text", 7, GEMMA),
    "gemma3-4b": ("gemma3_text", 7, GEMMA | {"stretch": Stretch("linear", 8.0)}),
}


def tokens():
    """Two rows of tokens, (2, LENGTH) int32."""
    return np.arange(3, 3 + 2 * LENGTH, dtype=np.int32).reshape(2, LENGTH)


def logits(model):
    """What a model of ours says of `tokens`, (2, LENGTH, vocabulary) float32."""
    return np.asarray(model.logits(_hidden(model)))[:, 0]


def _hidden(model):
    given = jnp.asarray(tokens())[:, None]
    places = jnp.broadcast_to(jnp.arange(LENGTH), given.shape)
    return model(given, places, jnp.ones_like(given))[0]


def write(name, folder):
    """Writes a model of a shape, no weight at a special value, and its logits."""
    family, layers, rest = SHAPES[name]
    tokenizer = chat.load_tokenizer(TINY)
    config = ModelConfig(family, len(tokenizer), 64, layers, 4, 2, 16, 128, **rest)
    model = Transformer(config, nnx.Rngs(0))
    state = nnx.state(model, nnx.Param)
    leaves, form = jax.tree.flatten(state)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [
        x + 0.05 * jax.random.normal(key, x.shape)
        for x, key in zip(leaves, keys, strict=True)
    ]
    nnx.update(model, jax.tree.unflatten(form, moved))
    weights.save(model, folder, tokenizer)
    np.save(folder / "logits.npy", logits(model))


def read(folder):
    """The logits of the model in a folder, as this course loads it."""
    model = weights.load(folder)
    return logits(model)
