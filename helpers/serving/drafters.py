"""Drafters propose the next tokens: by looking them up in the text, or with a model.

A drafter sees the answers so far and proposes a block of tokens for each. The target
verifies them (`serving.speculative`). A poor drafter costs time, never correctness.
Every drafter is an nnx module with `block`, `begin` and `propose`.

Axes: P prompts, G answers each, T tokens, B drafted tokens, V vocabulary.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.generation.next_token import draw
from helpers.generation.sampling import empty_cache
from helpers.model.attention import KV, summing
from helpers.model.fast.unrolled import Unrolled, for_decoding
from helpers.model.scoring import prefill

WORDS = 3  # the most tokens that have to agree for prompt lookup


class Known(NamedTuple):
    """The answers so far.

    tokens: (P, G, T) int32, real up to total. total: (P, G) int32, at least 1.
    length: (P,) int32, tokens of each prompt. keys: (P, G) random keys.
    """

    tokens: jax.Array
    total: jax.Array
    length: jax.Array
    keys: jax.Array


class PromptLookup(nnx.Module):
    """Proposes what followed the last time that the text had the same last tokens.

    Looks for the latest earlier match of the last `WORDS` tokens, then for shorter
    ones, and copies what comes after it. For answers that repeat their prompt: names,
    code, quotations.

    Args:
      block: B, tokens to propose.
    """

    def __init__(self, block: int = 4):
        self.block = block

    def begin(self, prompt_PT, mask_PT, group, room):
        """The state before the first block: the prompts."""
        return prompt_PT

    def propose(self, prompt_PT, known: Known, temperature):
        """See `DraftModel.propose`; there are no logits, for nothing was drawn."""
        P, G, T = known.tokens.shape
        prompt_PGT = jnp.broadcast_to(prompt_PT[:, None], (P, G, prompt_PT.shape[1]))
        length_PG = jnp.broadcast_to(known.length[:, None], (P, G))
        find = functools.partial(_continued, block=self.block)
        args = prompt_PGT, length_PG, known.tokens, known.total
        return jax.vmap(jax.vmap(find))(*args), None, prompt_PT


def _continued(prompt, length, tokens, count, block):
    """What followed the last tokens of one text earlier on; (block,) int32."""
    place = jnp.arange(prompt.shape[0] + tokens.shape[0])
    answer = tokens[jnp.clip(place - length, 0, tokens.shape[0] - 1)]
    question = prompt[jnp.clip(place, 0, len(prompt) - 1)]
    text = jnp.where(place < length, question, answer)
    end = length + count
    # agreeing[i]: how many tokens before place i are those before the text's end.
    agreeing, matches = jnp.zeros_like(place), place < end
    for back in range(1, WORDS + 1):
        there = (place >= back) & (end >= back)
        matches &= there & (jnp.roll(text, back) == text[end - back])
        agreeing += matches
    best = jnp.argmax(agreeing * len(place) + place)  # the longest, then the latest
    return text[jnp.clip(best + jnp.arange(block), 0, len(place) - 1)]


class DraftModel(nnx.Module):
    """A smaller model of the same vocabulary proposes the next tokens one by one.

    Args:
      model: a Transformer.
      block: B, tokens to propose.
    """

    def __init__(self, model, block: int = 4):
        self.block, self.model = block, model
        self.layers: Unrolled | None = None  # set by `begin`, while it is traced

    def begin(self, prompt_PT, mask_PT, group, room):
        """The state before the first block: the prompts' KV and an empty cache.

        Args:
          group: answers to each prompt. room: tokens that an answer may have.

        The cache has a column more than there are tokens, which stands before the
        first: token i lies in column i + 1.
        """
        _, prefix = prefill(self.model, prompt_PT, mask_PT)
        cache = empty_cache(prefix, group, room + 1)
        self.layers, pieces = for_decoding(self.model, prefix, cache)
        return pieces

    def propose(self, state, known: Known, temperature):
        """Proposes the next B tokens of every answer.

        Args:
          state: from `begin`, or from the last call.
          known: the answers so far.
          temperature: that of sampling; None is greedy.
        Returns:
          (tokens (P, G, B) int32, the logits that they were drawn from (P, G, B, V) or
          None, the next state).
        """
        prefix, cache = state
        read = self.model.reader()
        # The cache may lack the last accepted token, and it lacks the target's own:
        # both are read again.
        at = jnp.stack([known.total - 2, known.total - 1], axis=-1)
        last = jnp.take_along_axis(known.tokens, jnp.maximum(at, 0), axis=-1)
        column = known.total - 1
        cache, hidden = self._read(prefix, cache, last, at, known.length, column)
        first = read(hidden[:, :, -1])
        token = _draw(first, known.keys, known.total, temperature)

        def one(carry, i):
            cache, token = carry
            at = (known.total + i)[..., None]
            step = token[..., None], at, known.length, at[..., 0] + 1
            cache, hidden = self._read(prefix, cache, *step)
            logits = read(hidden[:, :, 0])
            token = _draw(logits, known.keys, known.total + i + 1, temperature)
            return (cache, token), (token, logits)

        steps = jnp.arange(self.block - 1)
        (cache, _), (tokens, logits) = jax.lax.scan(one, (cache, token), steps)
        tokens = jnp.concatenate([token[None], tokens])
        logits = jnp.concatenate([first[None], logits])
        drafted = jnp.moveaxis(tokens, 0, -1), jnp.moveaxis(logits, 0, -2)
        return *drafted, (prefix, cache)

    def _read(self, prefix, cache, tokens_PGT, at_PGT, length_P, column_PG):
        """Reads tokens at these places of the answers, into the cache from a column."""
        cache = only_before(cache, column_PG)
        positions = length_P[:, None, None] + at_PGT
        segments = (at_PGT >= 0).astype(jnp.int32)
        hidden, new = self.model(
            tokens_PGT, positions, segments, earlier=(prefix, cache), layers=self.layers
        )
        return write(cache, new, column_PG), hidden


def only_before(cache: KV, column_PG) -> KV:
    """A cache in which columns from `column_PG` on are not seen."""
    columns = jnp.arange(cache.segments.shape[-1])
    seen = jnp.where(columns < column_PG[..., None], cache.segments, 0)
    return cache._replace(segments=seen)


def write(cache: KV, new: KV, column_PG) -> KV:
    """Writes new tokens into the cache, each answer's from its own column on."""
    stack = int(not isinstance(cache.keys, list))  # the layers' axis of a stack
    if stack or column_PG.size == 1:
        keys = put(cache.keys, new.keys, column_PG, axis=2 + stack, before=stack)
        values = put(cache.values, new.values, column_PG, axis=1 + stack, before=stack)
    else:
        keys, values = _multiplied_in(cache, new, column_PG)
    return KV(
        keys,
        values,
        put(cache.positions, new.positions, column_PG),
        put(cache.segments, new.segments, column_PG),
    )


def _multiplied_in(cache, new, column_PG):
    """`write` for layers apart: (keys, values), as lists.

    A TPU writes to places that differ by row one after the other. A product with ones
    and zeros moves the new tokens of all rows to their columns at once.
    """
    T, S = new.positions.shape[-1], cache.positions.shape[-1]
    goes_PGTS = column_PG[..., None, None] + jnp.arange(T)[:, None] == jnp.arange(S)
    there_PGS = goes_PGTS.any(axis=2)

    def moved(terms, x):
        return jnp.einsum(terms, x, goes_PGTS.astype(x.dtype), precision="highest")

    keys = [
        jnp.where(there_PGS[:, :, None, None], moved("pgkht,pgts->pgkhs", x), old)
        for old, x in zip(cache.keys, new.keys, strict=True)
    ]
    values = [
        jnp.where(
            there_PGS[:, :, None, :, None],
            summing(moved("pgkth,pgts->pgksh", x), x.shape[-1])[..., : old.shape[-1]],
            old,
        )
        for old, x in zip(cache.values, new.values, strict=True)
    ]
    return keys, values


def put(old, new, column_PG, axis=0, before=0):
    """Writes each answer's part of `new` into `old`, from its own column on.

    Args:
      old, new: arrays, or trees of them, in which P and G stand after `before` axes.
      axis: of one answer's part, along which it is written.
    """

    def one(old, new, column):
        place = {"start_index": column, "axis": axis}
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, **place)
        return jax.tree.map(put, old, new)

    over = functools.partial(jax.vmap, in_axes=(before, before, 0), out_axes=before)
    return over(over(one))(old, new, column_PG)


def _draw(logits_PGV, keys_PG, place_PG, temperature):
    """A token from each row of logits, with noise that only the drafter uses."""
    if temperature is None:
        return logits_PGV.argmax(axis=-1).astype(jnp.int32)
    noise = uniform(keys_PG, place_PG, DRAFTS)
    return draw(logits_PGV / temperature, noise)


DRAFTS, CHECKS, TARGET = 1, 2, 3  # what a random number is for


def uniform(keys_PG, place_PG, use):
    """A number in [0, 1) of each answer's key, for one place and one use."""

    def one(key, place):
        return jax.random.uniform(
            jax.random.fold_in(jax.random.fold_in(key, use), place)
        )

    return jax.vmap(jax.vmap(one))(keys_PG, place_PG)
