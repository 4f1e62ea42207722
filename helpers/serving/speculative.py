"""Speculative decoding: a drafter proposes tokens, one pass of the target checks them.

Decoding reads all weights for every token. A pass over a few tokens costs hardly more
than one over a single token, so tokens that are guessed well are nearly free
(2211.17192). What comes out is distributed as without a drafter, and equal to it when
decoding is greedy. (In bfloat16 a pass over several tokens rounds otherwise than one
over a single token, and of two that are nearly as likely the other one may win.)
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.generation import sampling
from helpers.generation.next_token import draw
from helpers.generation.sampling import (
    Completions,
    empty_cache,
    gathered_model,
    prepared,
)
from helpers.model.fast.unrolled import for_decoding
from helpers.model.scoring import prefill
from helpers.runtime.devices import jit
from helpers.runtime.sharding import using
from helpers.serving.drafters import (
    CHECKS,
    OWN,
    Known,
    only_before,
    put,
    uniform,
    write,
)
from helpers.serving.verify import verify, verify_greedily


class Speculated(NamedTuple):
    """Answers, and what they cost.

    completions: sampling.Completions. passes: (P, G) int32, the target's passes after
    the prompt, each of which gives at least one token. kept: (P, G) int32, how many
    drafted tokens were kept; `passes * block` were proposed.
    """

    completions: Completions
    passes: jax.Array
    kept: jax.Array

    def per_pass(self) -> float:
        """Tokens that a pass of the target gives on average."""
        tokens = self.completions.mask.sum() - self.completions.mask[..., 0].sum()
        return float(tokens / jnp.maximum(self.passes.sum(), 1))


def generate(
    model,
    drafter,
    prompt_PT,
    prompt_mask_PT,
    keys_PG,
    *,
    max_tokens,
    eos_ids,
    temperature=1.0,
) -> Speculated:
    """As `sampling.generate`, faster where the drafter guesses well.

    Args:
      model: the target, a Transformer.
      drafter: from `drafters`, of the same vocabulary.
      The others are those of `sampling.generate`; without top_k, top_p and pictures.
    Raises:
      ValueError: as `sampling.generate`; or the drafter cannot draft for this target.
    """
    vocab = model.config.vocab_size
    sampling.check_limits(max_tokens, eos_ids, temperature, vocab)
    drafter.check(model)
    sampling.check_keys(keys_PG, len(prompt_PT))
    graph, weights, rows = prepared(
        model, prompt_PT, prompt_mask_PT, max_tokens, keys_PG
    )
    with using(weights):
        return _generate(
            graph,
            weights,
            *nnx.split(drafter),
            *rows,
            jnp.float32(temperature),
            max_tokens=max_tokens,
            eos_ids=tuple(eos_ids),
            greedy=temperature == 0,
        )


class _State(NamedTuple):
    """What a pass changes, axes (P, G): all that is known of the answers."""

    tokens: jax.Array
    logprobs: jax.Array
    total: jax.Array
    ended: jax.Array
    passes: jax.Array
    kept: jax.Array


@functools.partial(
    jit,
    static_argnames=("graph", "draft_graph", "max_tokens", "eos_ids", "greedy"),
)
def _generate(
    graph,
    weights,
    draft_graph,
    draft_weights,
    prompt_PT,
    prompt_mask_PT,
    keys_PG,
    temperature,
    *,
    max_tokens,
    eos_ids,
    greedy,
):
    model = gathered_model(graph, weights)
    drafter = nnx.merge(draft_graph, draft_weights)
    (P, G), room = keys_PG.shape, max_tokens + drafter.block + 1
    length_P = prompt_mask_PT.sum(axis=1)
    eos = jnp.asarray(eos_ids, jnp.int32)
    warmth = None if greedy else temperature

    def going(carry):
        state, _, _ = carry
        return (~_done(state, max_tokens)).any()

    def one_pass(carry):
        state, cache, drafting = carry
        known = Known(state.tokens, state.total, length_P, keys_PG)
        drafted, draft, drafting = drafter.propose(
            drafting, known, (prefix, cache), warmth
        )
        logits, cache = _score(model, layers, prefix, cache, known, drafted)
        found = _checked(logits, drafted, draft, known, warmth)
        state = _noted(state, logits, drafted, found, eos, max_tokens)
        return state, cache, drafting

    last_PD, prefix = prefill(model, prompt_PT, prompt_mask_PT)
    logits_PGV = jnp.broadcast_to(
        model.logits(last_PD)[:, None], (P, G, model.config.vocab_size)
    )
    state = _first(logits_PGV, keys_PG, warmth, room, eos)
    pieces = prefix, empty_cache(prefix, G, room)
    layers, (prefix, cache) = for_decoding(model, *pieces)
    drafting = drafter.begin(prompt_PT, prompt_mask_PT, G, room)
    state, _, _ = jax.lax.while_loop(going, one_pass, (state, cache, drafting))
    return _speculated(state, max_tokens)


def _first(logits_PGV, keys_PG, temperature, room, eos):
    """Every answer's first token, which the prompt's own pass predicts."""
    P, G = keys_PG.shape
    none = jnp.zeros((P, G), jnp.int32)
    if temperature is None:
        token = logits_PGV.argmax(axis=-1).astype(jnp.int32)
    else:
        token = draw(logits_PGV / temperature, uniform(keys_PG, none, OWN))
    tokens = jnp.zeros((P, G, room), jnp.int32).at[..., 0].set(token)
    logprobs = jnp.zeros((P, G, room), jnp.float32)
    logprobs = logprobs.at[..., 0].set(_logprob(logits_PGV, token))
    return _State(tokens, logprobs, none + 1, jnp.isin(token, eos), none, none)


def _score(model, layers, prefix, cache, known: Known, drafted):
    """The target's logits (P, G, B+1, V) of every drafted token and the one after."""
    last = jnp.take_along_axis(known.tokens, known.total[..., None] - 1, axis=-1)
    tokens = jnp.concatenate([last, drafted], axis=-1)
    column = known.total - 1
    cache = only_before(cache, column)
    at = column[..., None] + jnp.arange(tokens.shape[-1])
    positions = known.length[:, None, None] + at
    hidden, new = model(tokens, positions, earlier=(prefix, cache), layers=layers)
    return model.logits(hidden), write(cache, new, column)


def _checked(logits, drafted, draft, known: Known, temperature):
    """Which drafted tokens are kept, and the target's own token after them."""
    if temperature is None:
        return verify_greedily(logits, drafted)
    places = known.total[..., None] + jnp.arange(drafted.shape[-1])
    checks = jnp.stack(
        [uniform(known.keys, places[..., i], CHECKS) for i in range(places.shape[-1])],
        axis=-1,
    )
    own = uniform(known.keys, known.total, OWN)
    return verify(logits, drafted, draft, temperature, checks, own)


def _noted(state, logits, drafted, found, eos, max_tokens):
    """The state with a pass's tokens, up to the first EOS and within the budget."""
    B = drafted.shape[-1]
    place = jnp.arange(B + 1)
    drafted = jnp.pad(drafted, [(0, 0), (0, 0), (0, 1)])
    fresh = jnp.where(place == found.kept[..., None], found.token[..., None], drafted)
    is_end = jnp.isin(fresh, eos) & (place <= found.kept[..., None])
    ends = is_end.any(axis=-1)
    count = jnp.where(ends, is_end.argmax(axis=-1) + 1, found.kept + 1)
    allowed = jnp.minimum(count, max_tokens - state.total)
    going = ~_done(state, max_tokens)
    added = jnp.where(going, allowed, 0)
    return _State(
        put(state.tokens, fresh, state.total),
        put(state.logprobs, _logprob(logits, fresh), state.total),
        state.total + added,
        state.ended | going & ends & (count <= allowed),
        state.passes + going,
        state.kept + jnp.where(going, jnp.minimum(found.kept, added), 0),
    )


def _done(state, max_tokens):
    return state.ended | (state.total >= max_tokens)


def _logprob(logits, tokens):
    """Log-probability of each token under the untempered model."""
    chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def _speculated(state, max_tokens):
    real = jnp.arange(max_tokens) < state.total[..., None]
    completions = Completions(
        jnp.where(real, state.tokens[..., :max_tokens], 0),
        real.astype(jnp.int32),
        jnp.where(real, state.logprobs[..., :max_tokens], 0.0),
        state.ended,
    )
    return Speculated(completions, state.passes, state.kept)
