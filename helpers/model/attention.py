"""The one attention of the course: queries look at several pieces of the past.

A prompt shared by a group of answers is one piece, computed once; an answer's own
tokens are another. Prefill (no piece but itself), decoding (prompt + cache + the new
token), training (prompt + answer) and multi-turn chats are the same function.
Axes: P prompts, G answers per prompt, T query tokens, S key tokens, K key heads,
R query heads per key head, H head width.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from helpers.model.fast import splash_attention

JOINED = 128  # queries from which on a copy of all keys is small beside the scores


class KV(NamedTuple):
    """Keys and values of tokens already seen, in every layer.

    keys: (layers, P, g, K, H, S), where g is G, or 1 for a piece that the whole group
      shares. Tokens come last, so that a score is a plain matrix product (decoding a
      small model on a CPU: 1.15×).
    values: (layers, P, g, K, S, H).
    Of Gemma 4 both are a dict of such arrays, by kind of layer: "local" and "full".
    positions: (P, g, S) int32. segments: (P, g, S) int32, 0 where there is no token.
    """

    keys: jax.Array
    values: jax.Array
    positions: jax.Array
    segments: jax.Array


def write_kv(room, new, at):
    """Keys and values with those of new tokens from column `at` on, in place in a loop.

    A column of ones behind the values (`summing`) stays.
    """
    put = jax.lax.dynamic_update_slice_in_dim
    (keys, values), (new_keys, new_values) = room, new
    return put(keys, new_keys, at, axis=-1), put(values, new_values, at, axis=-2)


def visible(positions_PGT, segments_PGT, piece: KV, runs_PGT=None):
    """Which keys of a piece each query may see: causal, same segment, not padding.

    Args:
      runs_PGT: if the piece is the queries' own tokens: the number of the image each
        stands in, 0 outside; those of one image see each other in both directions.
    Returns:
      (allowed, distance): (P, G, T, S) bool, and how many tokens back, int32.
    """
    distance = positions_PGT[..., None] - piece.positions[:, :, None, :]
    same = segments_PGT[..., None] == piece.segments[:, :, None, :]
    there = piece.segments[:, :, None, :] > 0
    ordered = distance >= 0
    if runs_PGT is not None:
        query, key = runs_PGT[..., None], runs_PGT[:, :, None, :]
        ordered |= (query == key) & (key > 0)
    return ordered & same & there, distance


@jax.custom_vjp
def attend(query_PGKRTH, pieces, masks):
    """Softmax attention over all pieces together, divided by the total at the end.

    Its own gradient rule keeps the result and the logarithm of each query's total, and
    computes the weights again from these: they take more memory than all the rest.

    Args:
      query_PGKRTH: queries, already scaled.
      pieces: (keys, values) per piece, (P, g, K, H, S) and (P, g, K, S, H) with g in
        {1, G}. Values that are kept for long may be `summing`: without a gradient.
      masks: (P, G, T, S) bool per piece.
    Returns:
      (P, G, K, R, T, H), in the dtype of the values.
    """
    return _attend_forward(query_PGKRTH, pieces, masks)[0]


def _attend_forward(query, pieces, masks):
    mixed, total = mixed_and_total(query, pieces, masks)
    # What is kept for the backward pass, by the names that `ops.REMAT` knows.
    mixed = checkpoint_name(mixed, "attended")
    total = checkpoint_name(total, "attention_total")
    return mixed, (query, pieces, masks, mixed, total)


def mixed_and_total(query, pieces, masks):
    """Each query's mean of the values, and the logarithm of its total."""
    scores = [
        _masked_scores(query, keys, mask)
        for (keys, _), mask in zip(pieces, masks, strict=True)
    ]
    highest = functools.reduce(
        jnp.maximum, [score.max(axis=-1, keepdims=True) for score in scores]
    )
    all_mixed, totals = [], []
    for score, (_, values) in zip(scores, pieces, strict=True):
        weight = jnp.exp(score - highest)
        if query.shape[-2] >= JOINED:  # of few, the copy costs more than the sum
            values = summing(values, query.shape[-1])
        mixed = _product("s,sh->h", weight.astype(values.dtype), values)
        if values.shape[-1] > query.shape[-1]:
            mixed, total = mixed[..., :-1], mixed[..., -1:]
        else:
            total = weight.sum(axis=-1, keepdims=True)
        all_mixed.append(mixed)
        totals.append(total)
    mixed, total = (functools.reduce(jnp.add, each) for each in (all_mixed, totals))
    mixed = (mixed / total).astype(pieces[0][1].dtype)
    return mixed, (highest + jnp.log(total))[..., 0]  # a last axis of 1 would be padded


def _attend_backward(saved, gradient):
    """The rule of a softmax: a weight gains by how far its value beats the mean.

    Of a query that sees nothing, such as padding, the total rounds to the mask's own
    number, and its slope is too large: it must have no say in the loss.
    """
    query, pieces, masks, mixed, total = saved
    wide = gradient.astype(jnp.float32) * mixed.astype(jnp.float32)
    mean = wide.sum(axis=-1, keepdims=True)
    for_queries, for_pieces = [], []
    for (keys, values), mask in zip(pieces, masks, strict=True):
        weight = jnp.exp(_masked_scores(query, keys, mask) - total[..., None])
        slope = weight * (_product("h,sh->s", gradient, values) - mean)
        slope = slope.astype(query.dtype)
        for_queries.append(_product("s,hs->h", slope, keys))
        for_keys = _summed("h,s", query, slope, keys)
        weight = weight.astype(gradient.dtype)
        for_pieces.append((for_keys, _summed("s,h", weight, gradient, values)))
    for_query = functools.reduce(jnp.add, for_queries)
    return for_query.astype(query.dtype), for_pieces, None


attend.defvjp(_attend_forward, _attend_backward)


def summing(values, H):
    """Values with a column of ones, for a product that sums weights up as well.

    Left as they are where they have one, or where one more column than H would not fit
    beside the others into a TPU's units of 128 × 128.
    """
    if H % 128 == 0 or values.shape[-1] > H:
        return values
    return jnp.concatenate([values, jnp.ones_like(values[..., :1])], axis=-1)


def _masked_scores(query, keys, mask):
    scores = _product("h,hs->s", query, keys)
    return jnp.where(mask[:, :, None, None], scores, -1e30)


def _product(axes, x, piece):
    """x (P, G, K, R, T, ·) by a piece's (P, g, K, ·, ·), float32, axes like x's.

    A piece that a group shares is one product for the whole group, which becomes more
    queries: 1.15 times as fast as repeating the piece, and less memory.
    """
    of_x, rest = axes.split(",")
    of_piece, out = rest.split("->")
    if piece.shape[1] == x.shape[1]:
        return _sums(f"pgkrt{of_x},pgk{of_piece}->pgkrt{out}", x, piece)
    folded = _fold(x, piece.shape[1])
    product = _sums(f"pgkq{of_x},pgk{of_piece}->pgkq{out}", folded, piece)
    return _unfold(product, (*x.shape[:-1], product.shape[-1]))


def _summed(axes, x, y, piece):
    """The gradient of a piece: x by y, summed over the queries that share it."""
    left, right = axes.split(",")
    if piece.shape[1] == x.shape[1]:
        product = _sums(f"pgkrt{left},pgkrt{right}->pgk{left}{right}", x, y)
    else:
        x, y = (_fold(z, piece.shape[1]) for z in (x, y))
        product = _sums(f"pgkq{left},pgkq{right}->pgk{left}{right}", x, y)
    return product.astype(piece.dtype)


def _sums(axes, x, y):
    return jnp.einsum(axes, x, y, preferred_element_type=jnp.float32)


def _fold(x, g):
    """(P, G, K, R, T, X) -> (P, g, K, G/g·R·T, X): the group becomes more queries."""
    P, G, K, R, T, X = x.shape
    x = x.reshape(P, g, G // g, K, R, T, X).swapaxes(2, 3)
    return x.reshape(P, g, K, G // g * R * T, X)


def _unfold(x, shape):
    """Undoes `_fold`, to (P, G, K, R, T, X)."""
    P, G, K, R, T, X = shape
    g = x.shape[1]
    return x.reshape(P, g, K, G // g, R, T, X).swapaxes(2, 3).reshape(shape)


BLOCK, BLOCKS = 128, 8  # least tokens in a block of queries, most blocks


class Reach(NamedTuple):
    """How far the queries of a layer look at most; the rest need not be computed.

    ahead: later tokens that one may see after all, inside an image.
    segments: of the tokens, (P, G, T) int32, if they look at nothing earlier: then long
      rows may go through a kernel. Within a segment positions rise by one.
    back: for the kernel: tokens that one sees, the last of them itself, as a local
      layer's window; 0 is all of them.
    whole: for the kernel: whether this layer looks at all in spite of `back`, () bool:
      where layers of both kinds are one program.
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
    if not splash_attention.fits(query_PGKRTH, pieces, reach):
        return in_blocks(query_PGKRTH, pieces, masks, reach)
    return jax.lax.platform_dependent(
        query_PGKRTH,
        pieces,
        tpu=lambda query, pieces: splash_attention.attend_long(query, pieces, reach),
        default=lambda query, pieces: in_blocks(query, pieces, masks, reach),
    )


def in_blocks(query_PGKRTH, pieces, masks, reach=EVERYTHING):
    """`attend_causally` by blocks of queries, each with the keys up to its own end.

    A token sees nothing after itself, so almost half of a long text's scores are never
    computed.
    """
    G, T = query_PGKRTH.shape[1], query_PGKRTH.shape[4]
    if T >= JOINED and len(pieces) > 1:
        pieces, masks = _joined(pieces, masks, G)
    size = max(BLOCK, -(-T // BLOCKS))
    *earlier, (keys, values) = pieces
    before = keys.shape[-1] - T
    blocks = []
    for start in range(0, T, size):
        end = min(start + size, T)
        last = before + min(end + reach.ahead, T)
        seen = [*earlier, (keys[..., :last], values[..., :last, :])]
        allowed = [mask[:, :, start:end] for mask in masks[:-1]]
        allowed.append(masks[-1][:, :, start:end, :last])
        blocks.append(attend(query_PGKRTH[..., start:end, :], seen, allowed))
    return jnp.concatenate(blocks, axis=4) if len(blocks) > 1 else blocks[0]


def _joined(pieces, masks, G):
    """Several pieces and masks as one of each, repeated for every row of the group."""

    def wide(parts):
        return [jnp.broadcast_to(x, (x.shape[0], G, *x.shape[2:])) for x in parts]

    keys, values = map(wide, zip(*pieces, strict=True))
    if len({x.shape[-1] for x in values}) > 1:  # some are `summing`, as in caches
        values = [summing(x, keys[0].shape[-2]) for x in values]
    joined = jnp.concatenate(keys, axis=-1), jnp.concatenate(values, axis=-2)
    return [joined], [jnp.concatenate(wide(masks), axis=-1)]
