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

BLOCK, BLOCKS = 128, 8  # least tokens in a block of queries, most blocks


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


def attend_causally(query_PGKRTH, pieces, masks, ahead=0):
    """`attend`, where the last piece is the queries' own tokens, in the same order.

    A token sees nothing after itself, so queries go in blocks and each block gets only
    the keys up to its own end: almost half of a long text's scores are never computed.

    Args, returns: as `attend`; `ahead` is how many later tokens one may see after all,
      inside an image.
    """
    T = query_PGKRTH.shape[4]
    size = max(BLOCK, -(-T // BLOCKS))
    *earlier, (keys, values) = pieces
    blocks = []
    for start in range(0, T, size):
        end = min(start + size, T)
        last = min(end + ahead, T)
        own = keys[..., :last], values[..., :last, :]
        allowed = [mask[:, :, start:end] for mask in masks[:-1]]
        allowed.append(masks[-1][:, :, start:end, :last])
        query = query_PGKRTH[..., start:end, :]
        blocks.append(attend(query, [*earlier, own], allowed))
    return jnp.concatenate(blocks, axis=4) if len(blocks) > 1 else blocks[0]


@jax.custom_vjp
def attend(query_PGKRTH, pieces, masks):
    """Softmax attention over all pieces together, divided by the total at the end.

    Its own gradient rule keeps the result and the logarithm of each query's total, and
    computes the weights again from these: they take more memory than all the rest.

    Args:
      query_PGKRTH: queries, already scaled.
      pieces: (keys, values) per piece, (P, g, K, H, S) and (P, g, K, S, H) with g in
        {1, G}.
      masks: (P, G, T, S) bool per piece.
    Returns:
      (P, G, K, R, T, H), in the dtype of the values.
    """
    return _attend_forward(query_PGKRTH, pieces, masks)[0]


def _attend_forward(query, pieces, masks):
    scores = [
        _masked_scores(query, keys, mask)
        for (keys, _), mask in zip(pieces, masks, strict=True)
    ]
    highest = functools.reduce(
        jnp.maximum, [score.max(axis=-1, keepdims=True) for score in scores]
    )
    weights = [jnp.exp(score - highest) for score in scores]
    total = sum(weight.sum(axis=-1, keepdims=True) for weight in weights)
    mixed = sum(
        _product("qs,sh->qh", weight.astype(values.dtype), values)
        for weight, (_, values) in zip(weights, pieces, strict=True)
    )
    mixed = checkpoint_name((mixed / total).astype(pieces[0][1].dtype), "attended")
    total = checkpoint_name(highest + jnp.log(total), "attention_total")
    return mixed, (query, pieces, masks, mixed, total)


def _attend_backward(saved, gradient):
    """The rule of a softmax: a weight gains by how far its value beats the mean."""
    query, pieces, masks, mixed, total = saved
    wide = gradient.astype(jnp.float32) * mixed.astype(jnp.float32)
    mean = wide.sum(axis=-1, keepdims=True)
    for_queries, for_pieces = [], []
    for (keys, values), mask in zip(pieces, masks, strict=True):
        weight = jnp.exp(_masked_scores(query, keys, mask) - total)
        slope = weight * (_product("qh,sh->qs", gradient, values) - mean)
        slope = slope.astype(query.dtype)
        for_queries.append(_product("qs,hs->qh", slope, keys))
        for_keys = _summed("qh,qs->hs", query, slope, keys)
        weight = weight.astype(gradient.dtype)
        for_pieces.append((for_keys, _summed("qs,qh->sh", weight, gradient, values)))
    for_query = functools.reduce(jnp.add, for_queries)
    return for_query.astype(query.dtype), for_pieces, None


attend.defvjp(_attend_forward, _attend_backward)


def _masked_scores(query, keys, mask):
    scores = _product("qh,hs->qs", query, keys)
    return jnp.where(mask[:, :, None, None], scores, -1e30)


def _product(axes, x, piece):
    """x (P, G, K, R, T, ·) by a piece's (P, g, K, ·, ·), float32, axes like x's.

    A piece that a group shares is one product for the whole group, which becomes more
    queries q: 1.15 times as fast as repeating the piece, and less memory.
    """
    first, rest = axes.split(",")
    second, out = rest.split("->")
    product = jnp.einsum(
        f"pgk{first},pgk{second}->pgk{out}",
        _fold(x, piece.shape[1]),
        piece,
        preferred_element_type=jnp.float32,
    )
    return _unfold(product, (*x.shape[:-1], product.shape[-1]))


def _summed(axes, x, y, piece):
    """The gradient of a piece: x by y, summed over the queries that share it."""
    first, rest = axes.split(",")
    second, out = rest.split("->")
    product = jnp.einsum(
        f"pgk{first},pgk{second}->pgk{out}",
        *(_fold(z, piece.shape[1]) for z in (x, y)),
        preferred_element_type=jnp.float32,
    )
    return product.astype(piece.dtype)


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
