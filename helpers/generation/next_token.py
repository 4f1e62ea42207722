"""From logits to a token and its log-probability: greedy, or by one random number."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# Tokens in a block of the cumulative distribution: few for a small vocabulary; a large
# one is cut as a TPU's registers are, 128 wide (a fifth of the time a token takes).
BLOCK, WIDE_BLOCK, WIDE = 32, 128, 8192


def tempering(temperature):
    """The temperature for a compiled sampler; None for 1, which saves a pass."""
    return None if temperature == 1 else jnp.float32(temperature)


class Chooser(NamedTuple):
    """Chooses the next token of each answer, by one key per answer.

    keys_PG: random keys. temperature: from `tempering`, or the number 0: greedy.
    """

    keys_PG: jax.Array
    temperature: Any

    def __call__(self, logits_PGV, t):
        """Token t of each answer, and its log-probability under the untempered model.

        Args:
          logits_PGV: float32. t: its place in the answer, a scalar or (P, G).
        """
        if isinstance(self.temperature, int):
            token_PG = logits_PGV.argmax(axis=-1).astype(jnp.int32)
            total_PG = jax.nn.logsumexp(logits_PGV, axis=-1)
        else:
            heat = self.temperature
            warm = logits_PGV if heat is None else logits_PGV / heat
            noise_PG = _uniform(self.keys_PG, jnp.broadcast_to(t, self.keys_PG.shape))
            token_PG, total_PG = _draw(warm, noise_PG)
            if heat is not None:
                total_PG = jax.nn.logsumexp(logits_PGV, axis=-1)
        chosen = jnp.take_along_axis(logits_PGV, token_PG[..., None], axis=-1)[..., 0]
        return token_PG, chosen - total_PG


def draw(logits, uniform):
    """One token per row, with the probability its logits give it.

    The inverse of the cumulative distribution, first over blocks of tokens, then inside
    the block that was hit: one random number a row, where the Gumbel trick needs one
    for every entry of the vocabulary (half of a small model's decoding time).

    Args:
      logits: (..., V) float32; -inf forbids a token.
      uniform: (...) float32 in [0, 1).
    Returns:
      (...) int32.
    """
    return _draw(logits, uniform)[0]


def _draw(logits, uniform):
    """`draw`, and the logarithm of all weights' sum, which it comes by anyway.

    A large vocabulary goes through memory once: the weights of the block that was hit
    are made again.
    """
    V = logits.shape[-1]
    size = WIDE_BLOCK if V >= WIDE else BLOCK
    highest = logits.max(axis=-1)
    padding = [(0, 0)] * (logits.ndim - 1) + [(0, -V % size)]
    blocks = jnp.pad(logits, padding, constant_values=-jnp.inf)
    blocks = blocks.reshape(*logits.shape[:-1], -1, size)
    weights = jnp.exp(blocks - highest[..., None, None])
    edges = jnp.cumsum(weights.sum(axis=-1), axis=-1)
    target = uniform[..., None] * edges[..., -1:]
    block = _first_above(edges, target)
    is_later = block > 0
    before = jnp.take_along_axis(edges, jnp.maximum(block - 1, 0), axis=-1)
    before = jnp.where(is_later, before, 0.0)
    inside = jnp.take_along_axis(blocks, block[..., None], axis=-2)[..., 0, :]
    inside = jnp.exp(inside - highest[..., None])
    place = _first_above(jnp.cumsum(inside, axis=-1), target - before)
    token = (block * size + place)[..., 0].astype(jnp.int32)
    return token, highest + jnp.log(edges[..., -1])


def _first_above(edges, target):
    """Index (..., 1) of the first edge above the target, at worst the last rise."""
    last_rise = jnp.argmax(edges, axis=-1, keepdims=True)
    return jnp.minimum((edges <= target).sum(axis=-1, keepdims=True), last_rise)


@jax.vmap
@jax.vmap
def _uniform(key, t):
    return jax.random.uniform(jax.random.fold_in(key, t))
