"""Answers that stop in the middle of a turn, and go on with what was written into them.

They stop after unequal numbers of tokens: what each hears comes before what it chooses,
and the gaps that the shorter ones leave in the cache are closed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from helpers.model.attention import KV


class Heard(NamedTuple):
    """What was written into answers, to be read before they go on.

    tokens, mask: (P, G, T) int32, right-padded, T the `max_tokens` of `generate`.
    place: (P, G) int32, how many tokens each answer has. Its random numbers then depend
    on its place, and not on where in the cache it stands.
    """

    tokens: np.ndarray
    mask: np.ndarray
    place: np.ndarray


def hearing(choose, start, heard):
    """A chooser that says first what is heard; `start` is the column of its first."""

    def chosen(logits_PGV, column):
        t = column - start
        tokens_PG, mask_PG = (
            jax.lax.dynamic_index_in_dim(x, t, axis=-1, keepdims=False)
            for x in (heard.tokens, heard.mask)
        )
        own_PG, logprob_PG = choose(logits_PGV, heard.place + t)
        is_heard = mask_PG > 0
        chosen_PG = jnp.where(is_heard, tokens_PG, own_PG)
        return chosen_PG, jnp.where(is_heard, 0.0, logprob_PG)

    return chosen


def closed_up(cache):
    """The cache with each answer's empty columns moved behind its tokens."""
    order_PGS = jnp.argsort(cache.segments == 0, axis=-1, stable=True)

    def moved(tree, axes, axis):
        order = jnp.expand_dims(order_PGS, axes)
        return jax.tree.map(lambda x: jnp.take_along_axis(x, order, axis=axis), tree)

    return KV(
        moved(cache.keys, (0, 3, 4), 5),
        moved(cache.values, (0, 3, 5), 4),
        moved(cache.positions, (), 2),
        moved(cache.segments, (), 2),
    )
