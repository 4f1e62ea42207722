"""Conversations in one cache: prefill the prompts, generate a turn, append, go on.

Everything stays in one cache, and nothing is computed or turned into tokens twice.
Answers take turns together, so a turn's columns of the cache are the same for all; an
answer that is not active leaves its own empty, and nobody sees them.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.batches.images import check_prompts
from helpers.generation.sampling import (
    append,
    chooser,
    decode_turn,
    empty_cache,
    gathered_model,
)
from helpers.model import scoring
from helpers.model.attention import KV
from helpers.runtime.jit import jit
from helpers.runtime.sharding import spread_rows, using


class Session(NamedTuple):
    """All answers of a batch of prompts, as far as they have got.

    prefix: KV of the prompts. cache: KV of the answers' own tokens and of what was
    appended. column: int32, how many columns of the cache are used. hidden: (P, G, D),
    which predicts the next token. length: (P, G) int32, its position. last: (P, G)
    int32, the token that was generated last and that the model has not read yet.
    """

    prefix: KV
    cache: KV
    column: jax.Array
    hidden: jax.Array
    length: jax.Array
    last: jax.Array


def columns(turns, max_tokens, max_result_tokens):
    """Columns of a cache for so many turns, with as many result tokens between two."""
    return turns * max_tokens + (turns - 1) * max_result_tokens


def prefill(model, prompt_PT, prompt_mask_PT, group, size, images=None) -> Session:
    """Reads each prompt once, for `group` answers.

    Args:
      model: a Transformer.
      prompt_PT, prompt_mask_PT: right-padded prompts, int32.
      size: columns of the cache, from `columns`.
      images: of the prompts, see `sampling.generate`.
    Raises:
      helpers.batches.images.ImageMismatch: a prompt's image tokens are not those of its
      images.
    """
    if images is not None or model.config.vision:
        check_prompts(prompt_PT, prompt_mask_PT, images, model.config.vision)
    graph, weights = nnx.split(model)
    rows = [jnp.asarray(prompt_PT), jnp.asarray(prompt_mask_PT)]
    rows += [] if images is None else [jnp.asarray(images)]
    with using(weights):
        rows = spread_rows(rows, weights)
        return _prefill(graph, weights, *rows, group=group, size=size)


@functools.partial(jit, static_argnames=("graph", "group", "size"))
def _prefill(graph, weights, prompt_PT, prompt_mask_PT, images=None, *, group, size):
    model = gathered_model(graph, weights)
    last_PD, prefix = scoring.prefill(model, prompt_PT, prompt_mask_PT, images)
    shape = len(prompt_PT), group
    length_PG = jnp.broadcast_to(prompt_mask_PT.sum(axis=1)[:, None], shape)
    cache = empty_cache(prefix, group, size)
    hidden_PGD = jnp.broadcast_to(last_PD[:, None], (*shape, last_PD.shape[-1]))
    nothing = jnp.zeros(shape, jnp.int32)
    return Session(prefix, cache, jnp.int32(0), hidden_PGD, length_PG, nothing)


def generate(
    model, session, keys_PG, active_PG, *, max_tokens, eos_ids, temperature=1.0
):
    """The active answers go on until each has ended in an EOS, or at `max_tokens`.

    Args:
      session: is used up; go on with the one that is returned.
      keys_PG: one random key per answer, the same in all turns.
      active_PG: (P, G) bool.
      temperature: 0 is greedy.
    Returns:
      (Session, Completions of this turn; empty for answers that are not active).
    """
    graph, weights = nnx.split(model)
    with using(weights):
        keys_PG, active_PG = spread_rows((keys_PG, jnp.asarray(active_PG)), weights)
        return _generate(
            graph,
            weights,
            session,
            keys_PG,
            active_PG,
            jnp.float32(temperature),
            max_tokens=max_tokens,
            eos_ids=tuple(eos_ids),
            greedy=temperature == 0,
        )


@functools.partial(
    jit,
    static_argnames=("graph", "max_tokens", "eos_ids", "greedy"),
    donate_argnames=("session",),
)
def _generate(
    graph, weights, session, keys, active, temperature, *, max_tokens, eos_ids, greedy
):
    model = gathered_model(graph, weights)
    choose = chooser(keys, None if greedy else temperature)
    state = session.hidden, session.length, active
    pieces = session.prefix, session.cache, session.column
    turn, cache = decode_turn(model, *pieces, state, max_tokens, eos_ids, choose)
    generated_PG = turn.mask.sum(axis=-1)
    final_PG1 = jnp.maximum(generated_PG - 1, 0)[..., None]
    last_PG = jnp.take_along_axis(turn.tokens, final_PG1, axis=-1)[..., 0]
    session = session._replace(
        cache=cache,
        column=session.column + max_tokens - 1,
        length=session.length + generated_PG,
        last=jnp.where(active, last_PG, session.last),
    )
    return session, turn


def append_tokens(model, session, tokens_PGT, mask_PGT):
    """Some answers read tokens that are not their own, such as a tool's result.

    Args:
      session: is used up; go on with the one that is returned.
      tokens_PGT, mask_PGT: int32, right-padded; an answer without tokens reads nothing
        and has ended: it may not be active again.
    Returns:
      Session.
    """
    graph, weights = nnx.split(model)
    with using(weights):
        rows = spread_rows((jnp.asarray(tokens_PGT), jnp.asarray(mask_PGT)), weights)
        return _append_tokens(graph, weights, session, *rows)


@functools.partial(jit, static_argnames=("graph",), donate_argnames=("session",))
def _append_tokens(graph, weights, session, tokens_PGT, mask_PGT):
    model = gathered_model(graph, weights)
    count_PG = mask_PGT.sum(axis=-1)
    own = jnp.minimum(count_PG, 1)[
        ..., None
    ]  # the last token is read with them
    segments = jnp.concatenate([own, mask_PGT], axis=-1)
    tokens = jnp.concatenate([session.last[..., None], tokens_PGT], axis=-1)
    positions = session.length[..., None] - 1 + jnp.arange(tokens.shape[-1])
    pieces = session.prefix, session.cache
    hidden, new = model(tokens, positions, segments, earlier=pieces)
    at_final = count_PG[..., None, None]
    return session._replace(
        cache=append(session.cache, new, session.column),
        column=session.column + tokens.shape[-1],
        hidden=jnp.take_along_axis(hidden, at_final, axis=2)[:, :, 0],
        length=session.length + count_PG,
    )
