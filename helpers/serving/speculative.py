"""Speculative decoding: a drafter proposes tokens, one pass of the target checks them.

Decoding reads all weights for every token. A pass over a few tokens costs hardly more
than one over a single token, so tokens that are guessed well are nearly free
(2211.17192). The output has the same distribution as without a drafter, and is equal to
it when decoding is greedy. (In bfloat16 a pass over several tokens rounds differently
from one over a single token, which can swap two tokens that are nearly as likely.)

Axes: P prompts, G answers each, T tokens, B drafted tokens, V vocabulary.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.generation import sampling
from helpers.generation.next_token import draw
from helpers.generation.sampling import Dialogue
from helpers.model.fast.unrolled import for_decoding
from helpers.model.scoring import prefill
from helpers.runtime.platform import jit
from helpers.runtime.run_identity import describe
from helpers.runtime.sharding import using
from helpers.serving import drafters
from helpers.serving.drafters import DraftModel, Known, uniform


class Verified(NamedTuple):
    """What became of the drafted tokens.

    accepted: (…) int32: how many of them, from the first on, 0 to B.
    token: (…) int32: the target's own token after these.
    """

    accepted: jax.Array
    token: jax.Array


def verify_greedily(target, drafted) -> Verified:
    """Accepts drafted tokens as long as each is the target's likeliest.

    Args:
      target: (…, B+1, V) logits; entry i predicts drafted token i, the last one the
        token after all of them.
      drafted: (…, B) int32.
    """
    best = target.argmax(axis=-1).astype(jnp.int32)
    accepted = _true_prefix(best[..., :-1] == drafted)
    token = jnp.take_along_axis(best, accepted[..., None], axis=-1)[..., 0]
    return Verified(accepted, token)


def verify(target, drafted, draft, temperature, uniform, last_uniform) -> Verified:
    """Accepts drafted tokens so that the output is distributed as the target's own.

    Speculative sampling (Leviathan et al., 2211.17192, Algorithm 1): each token is
    accepted with probability min(1, p/q). The first that is not is replaced by a token
    drawn from max(0, p - q), normalised. Every token that comes out then has the
    target's distribution p, whatever the drafter's q.

    Args:
      target: (…, B+1, V) logits, as in `verify_greedily`.
      drafted: (…, B) int32.
      draft: (…, B, V) logits that the drafted tokens were drawn from, at this very
        temperature; None if the drafter had no choice (q is 1 at its token).
      temperature: above 0.
      uniform: (…, B) in [0, 1), which decide what is accepted. last_uniform: (…),
        decides the target's own token. All independent of the drafter's.
    """
    p = jax.nn.softmax(target / temperature, axis=-1)
    if draft is None:
        q = jax.nn.one_hot(drafted, target.shape[-1], dtype=p.dtype)
    else:
        q = jax.nn.softmax(draft / temperature, axis=-1)
    p_drafted, q_drafted = (
        jnp.take_along_axis(x, drafted[..., None], axis=-1)[..., 0]
        for x in (p[..., :-1, :], q)
    )
    accepted = _true_prefix(uniform * q_drafted < p_drafted)
    after_all = jnp.zeros_like(q[..., :1, :])  # nothing was drafted there
    residual = jnp.maximum(p - jnp.concatenate([q, after_all], axis=-2), 0.0)
    rest = _row(residual, accepted)
    # Rounding alone can leave nothing, where p and q are equal: p itself is right then.
    empty = rest.sum(axis=-1, keepdims=True) == 0
    rest = jnp.where(empty, _row(p, accepted), rest)
    return Verified(accepted, draw(jnp.log(rest), last_uniform))


def _true_prefix(conditions):
    """How many entries are true before the first that is not."""
    return jnp.cumprod(conditions.astype(jnp.int32), axis=-1).sum(axis=-1)


def _row(values, index):
    """values (…, B+1, V) at index (…) -> (…, V)."""
    return jnp.take_along_axis(values, index[..., None, None], axis=-2)[..., 0, :]


class Speculated(NamedTuple):
    """Answers, and what they cost.

    completions: sampling.Completions. passes: (P, G) int32, the target's passes after
    the prompt, each of which gives at least one token. accepted: (P, G) int32, how many
    drafted tokens were accepted; `passes * block` were proposed.
    """

    completions: sampling.Completions
    passes: jax.Array
    accepted: jax.Array

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
      The others are those of `sampling.generate`; without pictures.
    Raises:
      ValueError: the drafter cannot draft for this target, or a prompt cannot be read.
    """
    vocab = model.config.vocab_size
    if isinstance(drafter, DraftModel) and drafter.model.config.vocab_size != vocab:
        raise ValueError(
            f"The drafter has {drafter.model.config.vocab_size} tokens and the target "
            f"{vocab}, padding included: take a drafter whose table has as many rows."
        )
    limits = sampling.checked_limits(max_tokens, eos_ids, temperature)
    graph, weights, rows = sampling.prepared(
        model, prompt_PT, prompt_mask_PT, max_tokens, keys_PG
    )
    heat, draft = jnp.float32(temperature), nnx.split(drafter)
    with using(weights):
        return _generate(graph, weights, *draft, rows, heat, limits)


class _State(NamedTuple):
    """What a pass changes, axes (P, G): all that is known of the answers."""

    tokens: jax.Array
    logprobs: jax.Array
    total: jax.Array
    ended: jax.Array
    passes: jax.Array
    accepted: jax.Array


@functools.partial(jit, static_argnames=("graph", "draft_graph", "limits"))
def _generate(graph, weights, draft_graph, draft_weights, rows, temperature, limits):
    prompt_PT, prompt_mask_PT, keys_PG = rows
    model = sampling.gathered_model(graph, weights)
    drafter = nnx.merge(draft_graph, draft_weights)
    max_tokens = limits.max_tokens
    (P, G), room = keys_PG.shape, max_tokens + drafter.block + 1
    length_P = prompt_mask_PT.sum(axis=1)
    eos = jnp.asarray(limits.eos_ids, jnp.int32)
    temperature_or_none = None if limits.greedy else temperature

    def unfinished(carry):
        state, _, _ = carry
        return (~_done(state, max_tokens)).any()

    def one_pass(carry):
        state, cache, drafting = carry
        known = Known(state.tokens, state.total, length_P, keys_PG)
        proposal = drafter.propose(drafting, known, temperature_or_none)
        drafted, draft, drafting = proposal
        logits, cache = _score(model, layers, prefix, cache, known, drafted)
        verified = _verified(logits, drafted, draft, known, temperature_or_none)
        state = _extended(state, logits, drafted, verified, eos, max_tokens)
        return state, cache, drafting

    last_PD, prefix = prefill(model, prompt_PT, prompt_mask_PT)
    logits_PGV = jnp.broadcast_to(
        model.logits(last_PD)[:, None], (P, G, model.config.vocab_size)
    )
    state = _first(logits_PGV, keys_PG, temperature_or_none, room, eos)
    pieces = prefix, sampling.empty_cache(prefix, G, room)
    layers, (prefix, cache) = for_decoding(model, *pieces)
    drafting = drafter.begin(prompt_PT, prompt_mask_PT, G, room)
    state, _, _ = jax.lax.while_loop(unfinished, one_pass, (state, cache, drafting))
    real = jnp.arange(max_tokens) < state.total[..., None]
    completions = sampling.Completions(
        jnp.where(real, state.tokens[..., :max_tokens], 0),
        real.astype(jnp.int32),
        jnp.where(real, state.logprobs[..., :max_tokens], 0.0),
        state.ended,
    )
    return Speculated(completions, state.passes, state.accepted)


def _first(logits_PGV, keys_PG, temperature, room, eos):
    """Every answer's first token, which the prompt's own pass predicts."""
    P, G = keys_PG.shape
    none = jnp.zeros((P, G), jnp.int32)
    if temperature is None:
        token = logits_PGV.argmax(axis=-1).astype(jnp.int32)
    else:
        token = draw(logits_PGV / temperature, uniform(keys_PG, none, drafters.TARGET))
    tokens = jnp.zeros((P, G, room), jnp.int32).at[..., 0].set(token)
    logprobs = jnp.zeros((P, G, room), jnp.float32)
    logprobs = logprobs.at[..., 0].set(_logprob(logits_PGV, token))
    return _State(tokens, logprobs, none + 1, jnp.isin(token, eos), none, none)


def _score(model, layers, prefix, cache, known: Known, drafted):
    """The target's logits (P, G, B+1, V) of every drafted token and the one after."""
    last = jnp.take_along_axis(known.tokens, known.total[..., None] - 1, axis=-1)
    tokens = jnp.concatenate([last, drafted], axis=-1)
    column = known.total - 1
    cache = drafters.only_before(cache, column)
    at = column[..., None] + jnp.arange(tokens.shape[-1])
    positions = known.length[:, None, None] + at
    hidden, new = model(tokens, positions, earlier=(prefix, cache), layers=layers)
    return model.logits(hidden), drafters.write(cache, new, column)


def _verified(logits, drafted, draft, known: Known, temperature):
    """Which drafted tokens are accepted, and the target's own token after them."""
    if temperature is None:
        return verify_greedily(logits, drafted)
    places = known.total[..., None] + jnp.arange(drafted.shape[-1])
    checks = jnp.stack(
        [
            uniform(known.keys, places[..., i], drafters.CHECKS)
            for i in range(places.shape[-1])
        ],
        axis=-1,
    )
    last = uniform(known.keys, known.total, drafters.TARGET)
    return verify(logits, drafted, draft, temperature, checks, last)


def _extended(state, logits, drafted, verified, eos, max_tokens):
    """The state with a pass's tokens, up to the first EOS and within the budget."""
    B, accepted = drafted.shape[-1], verified.accepted
    place = jnp.arange(B + 1)
    drafted = jnp.pad(drafted, [(0, 0), (0, 0), (0, 1)])
    fresh = jnp.where(place == accepted[..., None], verified.token[..., None], drafted)
    is_end = jnp.isin(fresh, eos) & (place <= accepted[..., None])
    ends = is_end.any(axis=-1)
    count = jnp.where(ends, is_end.argmax(axis=-1) + 1, accepted + 1)
    allowed = jnp.minimum(count, max_tokens - state.total)
    going = ~_done(state, max_tokens)
    added = jnp.where(going, allowed, 0)
    return _State(
        drafters.put(state.tokens, fresh, state.total),
        drafters.put(state.logprobs, _logprob(logits, fresh), state.total),
        state.total + added,
        state.ended | going & ends & (count <= allowed),
        state.passes + going,
        state.accepted + jnp.where(going, jnp.minimum(accepted, added), 0),
    )


def _done(state, max_tokens):
    return state.ended | (state.total >= max_tokens)


def _logprob(logits, tokens):
    """Log-probability of each token under the untempered model."""
    chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


class SpeculativeTurn(Dialogue):
    """A `Dialogue` of one turn: `Rollouts(…, environment=SpeculativeTurn(drafter))`.

    The answers have the same distribution as without a drafter, and their
    log-probabilities are the policy's own, so losses need not know. Random numbers are
    used in another order: a seed gives other answers than without.

    Args:
      drafter: from `serving.drafters`. It is not trained, so it falls behind a policy
        that moves far from it; that costs time only.
    """

    def __init__(self, drafter):
        self.drafter = drafter

    def describe(self):
        """What a run's state stores about it: the drafter, its weights included."""
        return {f"drafter: {name}": x for name, x in describe(self.drafter).items()}

    def sampled(self, model, prompts, keys, **settings):
        """As `Dialogue.sampled`; its metric is `tokens_per_pass`, of the whole batch.

        Raises:
          ValueError: the prompts have pictures.
        """
        if "images" in prompts:
            raise ValueError("A drafter sees no pictures: leave it out for these rows.")
        rows = prompts["prompt"], prompts["prompt_mask"], keys
        answers = generate(model, self.drafter, *rows, **settings)
        return answers.completions, {"tokens_per_pass": answers.per_pass()}
