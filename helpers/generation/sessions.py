"""Conversations in one cache: prefill the prompts, generate a turn, append, go on.

Nothing is computed or tokenized twice. Answers take turns together, so a turn uses the
same columns of the cache for all of them. An answer that is not active leaves its
columns empty, and attention skips them. An answer that stopped in the middle of a turn
goes on in it (`resume`), and may first read tokens that were written into it.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.generation.next_token import Chooser, tempering
from helpers.generation.sampling import (
    append,
    checked_limits,
    decode_turn,
    empty_cache,
    gathered_model,
    prepared,
)
from helpers.model import scoring
from helpers.model.attention import KV
from helpers.runtime.platform import jit
from helpers.runtime.sharding import local_rows, spread_rows, using


class Session(NamedTuple):
    """All answers of a batch of prompts so far.

    prefix: KV of the prompts. cache: KV of the answers' own tokens and of what was
    appended. column: int32, how many columns of the cache are used. hidden: (P, G, D),
    which predicts the next token. length: (P, G) int32, its position. last: (P, G)
    int32, the token that was generated last and that the model has not read yet.
    ready: (P, G) bool, whether `hidden` has read everything, so that the answer may
    take its turn.
    """

    prefix: KV
    cache: KV
    column: jax.Array
    hidden: jax.Array
    length: jax.Array
    last: jax.Array
    ready: jax.Array


class ForcedTokens(NamedTuple):
    """Tokens that were written into answers, which they read before they go on.

    tokens, mask: (P, G, T) int32, right-padded, T the `max_tokens` of `generate`.
    place: (P, G) int32, how many tokens each answer has. Its random numbers then depend
    on its place, and not on where in the cache it stands.
    """

    tokens: np.ndarray
    mask: np.ndarray
    place: np.ndarray


def columns(turns, max_tokens, max_result_tokens):
    """Columns of the cache for `turns` turns with results of tools between them."""
    return turns * max_tokens + (turns - 1) * max_result_tokens


def prefill(
    model, prompt_PT, prompt_mask_PT, group, size, images=None, spare=0
) -> Session:
    """Reads each prompt once, for `group` answers.

    Args:
      model: a Transformer.
      prompt_PT, prompt_mask_PT: right-padded prompts, int32.
      size: columns of the cache, from `columns`.
      images: of the prompts, see `sampling.generate`.
      spare: columns beyond `size`, for tokens that belong to no answer; these alone may
        stand at positions that the model was not made for.
    Raises:
      ValueError: a prompt is empty, has gaps or foreign ids.
      helpers.runtime.ranges.TextTooLong: a prompt and `size` tokens behind it are a
        longer text than those that the model was made for.
      helpers.batches.images.ImageMismatch: a prompt's image tokens are not those of
      its images.
    """
    pieces = prompt_PT, prompt_mask_PT, size
    graph, weights, rows = prepared(model, *pieces, images=images)
    with using(weights):
        return _prefill(graph, weights, rows, group, size + spare)


@functools.partial(jit, static_argnames=("graph", "group", "size"))
def _prefill(graph, weights, rows, group, size):
    prompt_PT, prompt_mask_PT, *images = rows
    model = gathered_model(graph, weights)
    last_PD, prefix = scoring.prefill(model, prompt_PT, prompt_mask_PT, *images)
    shape = len(prompt_PT), group
    length_PG = jnp.broadcast_to(prompt_mask_PT.sum(axis=1)[:, None], shape)
    cache = empty_cache(prefix, group, size)
    hidden_PGD = jnp.broadcast_to(last_PD[:, None], (*shape, last_PD.shape[-1]))
    nothing, ready = jnp.zeros(shape, jnp.int32), jnp.ones(shape, bool)
    return Session(prefix, cache, jnp.int32(0), hidden_PGD, length_PG, nothing, ready)


def generate(
    model,
    session,
    keys_PG,
    active_PG,
    *,
    max_tokens,
    eos_ids,
    temperature=1.0,
    forced: ForcedTokens | None = None,
):
    """Decodes the active answers until each ends in an EOS, or to `max_tokens`.

    Args:
      session: is donated; go on with the returned one.
      keys_PG: one random key per answer, the same in all turns.
      active_PG: (P, G) bool.
      temperature: 0 is greedy.
      forced: what each answer begins with, as if it had chosen it, log-prob 0.
    Returns:
      (Session, Completions of this turn; empty for answers that are not active).
    Raises:
      ValueError: an active answer has had its turn and nothing was appended since, the
        cache has no room for `max_tokens`, or a setting means nothing.
    """
    limits = checked_limits(max_tokens, eos_ids, temperature)
    active_PG = jnp.asarray(active_PG, bool)
    _check_turn(session, np.asarray(active_PG), True, max_tokens - 1)
    graph, weights = nnx.split(model)
    rows = spread_rows([keys_PG, active_PG, *(forced or ())], weights)
    with using(weights):
        return _generate(graph, weights, session, rows, tempering(temperature), limits)


@functools.partial(
    jit, static_argnames=("graph", "limits"), donate_argnames=("session",)
)
def _generate(graph, weights, session, rows, temperature, limits):
    keys, active, *forced = rows
    model = gathered_model(graph, weights)
    choose = Chooser(keys, 0 if limits.greedy else temperature)
    if forced:
        choose = force_tokens(choose, session.column, ForcedTokens(*forced))
    state = session.hidden, session.length, active
    kv, start = (session.prefix, session.cache), session.column
    turn, cache = decode_turn(model, kv, start, state, limits, choose)
    generated_PG = turn.mask.sum(axis=-1)
    final_PG1 = jnp.maximum(generated_PG - 1, 0)[..., None]
    last_PG = jnp.take_along_axis(turn.tokens, final_PG1, axis=-1)[..., 0]
    session = session._replace(
        cache=cache,
        column=session.column + limits.max_tokens - 1,
        length=session.length + generated_PG,
        last=jnp.where(active, last_PG, session.last),
        ready=session.ready & ~active,
    )
    return session, turn


def append_tokens(model, session, tokens_PGT, mask_PGT):
    """Appends tokens that the model did not sample, such as a tool's result.

    Args:
      session: is donated; go on with the returned one.
      tokens_PGT, mask_PGT: int32, right-padded; an answer without tokens reads nothing
        and, if it has had its turn, may not be active again before it does.
    Returns:
      Session.
    Raises:
      ValueError: they follow no turn, or the cache has no room for them.
    """
    reads_PG = np.asarray(mask_PGT).any(axis=-1)
    _check_turn(session, reads_PG, False, np.shape(mask_PGT)[-1] + 1)
    graph, weights = nnx.split(model)
    rows = spread_rows(np.asarray([tokens_PGT, mask_PGT], np.int32), weights)
    with using(weights):
        return _append_tokens(graph, weights, session, *rows)


@functools.partial(jit, static_argnames=("graph",), donate_argnames=("session",))
def _append_tokens(graph, weights, session, tokens_PGT, mask_PGT):
    model = gathered_model(graph, weights)
    return _read(model, session, tokens_PGT, mask_PGT, mask_PGT.any(axis=-1))


def _read(model, session, tokens_PGT, mask_PGT, reads_PG):
    """The answers in `reads_PG` read their last token and the tokens after it."""
    count_PG = mask_PGT.sum(axis=-1)
    last = reads_PG.astype(jnp.int32)[..., None], session.last[..., None]
    segments = jnp.concatenate([last[0], mask_PGT], axis=-1)
    tokens = jnp.concatenate([last[1], tokens_PGT], axis=-1)
    positions = session.length[..., None] - 1 + jnp.arange(tokens.shape[-1])
    pieces = session.prefix, session.cache
    hidden, new = model(tokens, positions, segments, earlier=pieces)
    final_PGD = jnp.take_along_axis(hidden, count_PG[..., None, None], axis=2)[:, :, 0]
    return session._replace(
        cache=append(session.cache, new, session.column),
        column=session.column + tokens.shape[-1],
        hidden=jnp.where(reads_PG[..., None], final_PGD, session.hidden),
        length=session.length + count_PG,
        ready=session.ready | reads_PG,
    )


def resume(model, session, active_PG):
    """Lets answers that stopped go on in the same turn: each reads its last token.

    They have stopped after different numbers of tokens. First each answer's columns are
    moved to the front of its cache, so that the cache needs no more columns than the
    longest answer has tokens.

    Args:
      session: is donated; go on with the returned one.
      active_PG: (P, G) bool, those that go on; the others never may again.
    Returns:
      Session.
    Raises:
      ValueError: an active answer has had no turn yet, or none since the last append.
    """
    active_PG = jnp.asarray(active_PG, bool)
    _check_turn(session, np.asarray(active_PG), False, 0)
    graph, weights = nnx.split(model)
    (active_PG,) = spread_rows((active_PG,), weights)
    with using(weights):
        return _resume(graph, weights, session, active_PG)


@functools.partial(jit, static_argnames=("graph",), donate_argnames=("session",))
def _resume(graph, weights, session, active_PG):
    model = gathered_model(graph, weights)
    cache = session.cache
    used_PG = (cache.segments > 0).sum(axis=-1, dtype=jnp.int32)
    column = jnp.where(active_PG, used_PG, 0).max()
    session = session._replace(cache=closed_up(cache), column=column)
    nothing = jnp.zeros((*active_PG.shape, 0), jnp.int32)
    return _read(model, session, nothing, nothing, active_PG)


def _check_turn(session, active_PG, generates, columns):
    """Refuses a turn out of order, or one that does not fit into the cache."""
    if (active_PG & (local_rows(session.ready) != generates)).any():
        raise ValueError("An answer's turns alternate with what is appended to it.")
    used, size = int(session.column), session.cache.positions.shape[-1]
    if used + columns > size:
        raise ValueError(
            f"The cache has {size} columns, {used} of them used, and this turn needs "
            f"{columns}. Pass prefill the size of all turns, from `columns`."
        )


def force_tokens(choose, start, forced):
    """A chooser that begins with forced tokens, the first of them at column `start`."""

    def chosen(logits_PGV, column):
        t = column - start
        tokens_PG, mask_PG = (
            jax.lax.dynamic_index_in_dim(x, t, axis=-1, keepdims=False)
            for x in (forced.tokens, forced.mask)
        )
        sampled_PG, logprob_PG = choose(logits_PGV, forced.place + t)
        is_forced = mask_PG > 0
        chosen_PG = jnp.where(is_forced, tokens_PG, sampled_PG)
        return chosen_PG, jnp.where(is_forced, 0.0, logprob_PG)

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
