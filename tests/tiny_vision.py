"""A tiny Gemma 3 that sees, and prompts with pictures, for tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tiny_models import VOCAB, config, group_batch, randomised

from helpers.model.vision_config import VisionConfig

IMAGE, BEGIN, END = VOCAB - 1, VOCAB - 2, VOCAB - 3
SEES = VisionConfig(
    width=12,
    layers=2,
    heads=3,
    ff=20,
    patch=4,
    size=24,
    tokens=9,
    image_token=IMAGE,
    begin_token=BEGIN,
    end_token=END,
)
SOFT = [IMAGE] * SEES.tokens
PICTURE = [BEGIN, *SOFT, END]


def model(seed=0, vision=SEES, *, dtype=jnp.float32, **changes):
    """As `tiny_models.model`, with a tower; its windows are shorter than an image."""

    def random(name, noise, x):
        tower_norm = "_norm'" in name and "vision" in name and "soft" not in name
        if "norm" in name or "bias" in name:
            return 0.3 * noise + tower_norm
        return noise * x.shape[-2] ** -0.5

    return randomised(config(vision=vision, **changes), random, seed, dtype)


cached_model = functools.cache(model)


def pictures(*shape, seed=0):
    """Random pictures (*shape, size, size, 3) uint8."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*shape, SEES.size, SEES.size, 3)).astype(np.uint8)


@functools.partial(jax.jit, static_argnums=0)
def _forward(graph, state, tokens, segments, seen):
    model = nnx.merge(graph, state)
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[-1]), tokens.shape)
    hidden, _ = model(tokens, positions, segments, images_PID=seen)
    return hidden[:, 0], model.logits(hidden)[:, 0]


def forward(model, tokens, seen, mask=None):
    """(hidden states, logits) of prompts (P, T), compiled once per shape."""
    tokens, mask = (
        None if x is None else jnp.asarray(x)[:, None] for x in (tokens, mask)
    )
    return _forward(*nnx.split(model), tokens, mask, seen)


@functools.partial(jax.jit, static_argnums=0)
def _see(graph, state, images):
    return nnx.merge(graph, state).see(images)


def see(model, images):
    """`model.see`, compiled once per shape."""
    return _see(*nnx.split(model), jnp.asarray(images))


def groups(G=2, answer=6, seed=0):
    """A group batch whose three prompts have one picture, two and none."""
    rng = np.random.default_rng(seed)

    def text(length):
        return rng.integers(2, END, length).tolist()

    prompts = [
        text(3) + PICTURE + text(6),
        text(1) + PICTURE + text(2) + PICTURE + text(4),
        text(8),
    ]
    completions = [[text(answer - g) for g in range(G)] for _ in prompts]
    images = pictures(3, 2, seed=seed)
    images[0, 1:], images[2] = 0, 0
    batch = group_batch(prompts, completions, garbage=IMAGE)
    return prompts, completions, batch | {"images": jnp.asarray(images)}
