"""Whatever a drafter proposes, what comes out has the target's own distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers.serving.speculative import verify, verify_greedily

TRIALS = 40_000


def log(*rows):
    """Logits of rows of probabilities."""
    with np.errstate(divide="ignore"):
        return jnp.log(jnp.asarray(rows, jnp.float32))


TARGET = log([0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25])
DRAFTS = {
    "the target itself": TARGET[:2],
    "another": log([0.2, 0.2, 0.6], [0.6, 0.3, 0.1]),
    "one that never draws 0": log([0.0, 0.5, 0.5], [0.0, 0.9, 0.1]),
    "one that only draws 0": log([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
}


@jax.jit
def outcomes(target, draft, temperature):
    """(drafted (N, B), Verified of N) with fresh noise in every trial."""
    keys = jax.random.split(jax.random.key(0), 3)
    B = target.shape[0] - 1
    if draft is None:
        drafted = jnp.broadcast_to(jnp.arange(B) % target.shape[-1], (TRIALS, B))
    else:
        shape = (TRIALS, B)
        drafted = jax.random.categorical(keys[0], draft / temperature, shape=shape)
    many = jnp.broadcast_to(target, (TRIALS, *target.shape))
    drafts = None if draft is None else jnp.broadcast_to(draft, (TRIALS, *draft.shape))
    checks = jax.random.uniform(keys[1], (TRIALS, B))
    last = jax.random.uniform(keys[2], (TRIALS,))
    return drafted, verify(many, drafted, drafts, temperature, checks, last)


def fits(observed, logits, temperature):
    """Whether counts are those of a distribution (chi-square, p above 1e-4)."""
    expected = np.asarray(jax.nn.softmax(logits / temperature)) * observed.sum()
    assert not observed[expected == 0].any()
    observed, expected = observed[expected > 0], expected[expected > 0]
    return (
        stats.chisquare(observed, expected * observed.sum() / expected.sum())[1] > 1e-4
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("name", [*DRAFTS, "copied"])
def test_every_token_is_distributed_as_the_targets(name, temperature):
    drafted, verified = jax.device_get(outcomes(TARGET, DRAFTS.get(name), temperature))
    tokens = np.concatenate([drafted, np.zeros((TRIALS, 1), int)], axis=1)
    tokens[np.arange(TRIALS), verified.accepted] = verified.token
    for place in range(3):
        # Given that the answer came this far, whatever was before it.
        there = tokens[verified.accepted >= place, place]
        if len(there) > 100:
            counts = np.bincount(there, minlength=3)
            assert fits(counts, TARGET[place], temperature), (place, counts)


def test_as_much_is_accepted_as_the_two_distributions_share():
    """2211.17192, Corollary 3.6: the acceptance is the sum of min(p, q)."""
    _, verified = outcomes(TARGET, DRAFTS["another"], 1.0)
    shared = 0.2 + 0.2 + 0.2
    assert (verified.accepted >= 1).mean() == pytest.approx(shared, abs=0.012)
    _, verified = outcomes(TARGET, DRAFTS["the target itself"], 1.0)
    assert (verified.accepted == 2).all()


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([(1, 2), (3, 6), (5, 3)]), st.integers(0, 10_000))
def test_greedy_is_a_loop_over_the_tokens(shape, seed):
    block, vocab = shape  # each is compiled anew
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(4, block + 1, vocab)).astype(np.float32)
    drafted = rng.integers(0, vocab, size=(4, block))
    drafted[:2] = target[:2, :-1].argmax(axis=-1)  # as good as it can be
    drafted[1, -1] += 1
    verified = verify_greedily(jnp.asarray(target), jnp.asarray(drafted))
    for row in range(4):
        best, count = target[row].argmax(axis=-1), 0
        while count < block and drafted[row, count] == best[count]:
            count += 1
        assert verified.accepted[row] == count and verified.token[row] == best[count]
