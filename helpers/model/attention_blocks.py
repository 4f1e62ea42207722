"""Attention in blocks of queries, each with no more keys than it can see.

Axes: as in `helpers.model.attention`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from helpers.model import attention, long_attention

BLOCK, BLOCKS = 128, 8  # least tokens in a block of queries, most blocks


class Reach(NamedTuple):
    """How far the queries of a layer look at most; the rest need not be computed.

    ahead: later tokens that one may see after all, inside an image.
    back: tokens that one sees, the last of them itself, as a local layer's window; 0
      is all of them.
    whole: whether this layer looks at all in spite of `back`, () bool: where layers of
      both kinds are one program.
    segments: of the tokens, (P, G, T) int32, if they look at nothing earlier: then long
      rows may go through a kernel. Within a segment positions rise by one.
    """

    ahead: int = 0
    back: int = 0
    whole: jax.Array | bool = False
    segments: jax.Array | None = None


EVERYTHING = Reach()


def attend_causally(query_PGKRTH, pieces, masks, reach=EVERYTHING):
    """`attend`, where the last piece is the queries' own tokens, in the same order.

    On TPUs long texts go through a kernel, else through blocks of queries.

    Args, returns: as `attend`; what the masks allow lies within `reach`.
    """
    if not long_attention.fits(query_PGKRTH, pieces, reach):
        return in_blocks(query_PGKRTH, pieces, masks, reach)
    return jax.lax.platform_dependent(
        query_PGKRTH,
        pieces,
        tpu=lambda query, own: long_attention.attend_long(query, own, reach),
        default=lambda query, own: in_blocks(query, own, masks, reach),
    )


def in_blocks(query_PGKRTH, pieces, masks, reach=EVERYTHING):
    """`attend_causally` by blocks of queries, each with the keys up to its own end.

    A token sees nothing after itself, so almost half of a long text's scores are never
    computed. Where a layer is local, nor are those of keys before its window.
    """
    G, T = query_PGKRTH.shape[1], query_PGKRTH.shape[4]
    if T >= attention.JOINED and len(pieces) > 1:
        pieces, masks = [_joined(pieces, G)], [_side_by_side(masks, G)]
    size = max(BLOCK, -(-T // BLOCKS))
    *earlier, (keys, values) = pieces
    before = keys.shape[-1] - T
    blocks = []
    for start in range(0, T, size):
        end = min(start + size, T)
        last = before + min(end + reach.ahead, T)
        own = keys[..., :last], values[..., :last, :]
        allowed = [mask[:, :, start:end] for mask in masks[:-1]]
        allowed.append(masks[-1][:, :, start:end, :last])
        query = query_PGKRTH[..., start:end, :]
        unseen = max(start - reach.back + 1, 0) // BLOCK * BLOCK if reach.back else 0
        if unseen and reach.whole is not True:
            between = before, before + unseen
            seen = query, [*earlier, own], allowed
            found = attend_near(*seen, jnp.asarray(reach.whole), between)
        else:
            found = attention.attend(query, [*earlier, own], allowed)
        blocks.append(found)
    return jnp.concatenate(blocks, axis=4) if len(blocks) > 1 else blocks[0]


def _joined(pieces, G):
    """Several pieces as one, each repeated for every row of the group."""
    keys, values = (
        [jnp.broadcast_to(x, (x.shape[0], G, *x.shape[2:])) for x in each]
        for each in zip(*pieces, strict=True)
    )
    if len({x.shape[-1] for x in values}) > 1:  # those kept for long may be `summing`
        values = [attention.summing(x, keys[0].shape[-2]) for x in values]
    return jnp.concatenate(keys, axis=-1), jnp.concatenate(values, axis=-2)


def _side_by_side(masks, G):
    wide = [
        jnp.broadcast_to(mask, (mask.shape[0], G, *mask.shape[2:])) for mask in masks
    ]
    return jnp.concatenate(wide, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attend_near(query, pieces, masks, whole, unseen):
    """`attend`, but for the keys of the last piece that a local layer does not see.

    Args:
      whole: () bool, whether the layer sees them after all; False: it never does.
      unseen: (first, last) of them; the masks of a local layer allow none.
    """
    return _near_forward(query, pieces, masks, whole, unseen)[0]


def _near_forward(query, pieces, masks, whole, unseen):
    mixed, total = jax.lax.cond(
        whole,
        lambda: attention.mixed_and_total(query, pieces, masks),
        lambda: attention.mixed_and_total(query, *_seen(pieces, masks, unseen)),
    )
    mixed, total = attention.named(mixed, total)
    return mixed, (query, pieces, masks, whole, mixed, total)


def _near_backward(unseen, saved, gradient):
    query, pieces, masks, whole, mixed, total = saved

    def far():
        saved = query, pieces, masks, mixed, total
        return attention.attend_backward(saved, gradient)[:2]

    def near():
        seen = _seen(pieces, masks, unseen)
        saved = query, *seen, mixed, total
        for_query, (*rest, own) = attention.attend_backward(saved, gradient)[:2]
        return for_query, [*rest, (_put(own[0], unseen, -1), _put(own[1], unseen, -2))]

    return *jax.lax.cond(whole, far, near), None, None


attend_near.defvjp(_near_forward, _near_backward)


def _seen(pieces, masks, unseen):
    """Pieces and masks without the unseen keys of the last one."""
    (*rest, (keys, values)), (*others, mask) = pieces, masks
    own = _without(keys, unseen, -1), _without(values, unseen, -2)
    return [*rest, own], [*others, _without(mask, unseen, -1)]


def _without(x, unseen, axis):
    first, last = unseen
    after = jax.lax.slice_in_dim(x, last, None, axis=axis)
    if not first:
        return after
    before = jax.lax.slice_in_dim(x, 0, first, axis=axis)
    return jnp.concatenate([before, after], axis=axis)


def _put(gradient, unseen, axis):
    """A gradient with zeros for the keys that were not seen."""
    first, last = unseen
    before = jax.lax.slice_in_dim(gradient, 0, first, axis=axis)
    after = jax.lax.slice_in_dim(gradient, first, None, axis=axis)
    shape = list(gradient.shape)
    shape[axis] = last - first
    nothing = jnp.zeros(shape, gradient.dtype)
    return jnp.concatenate([before, nothing, after], axis=axis)
