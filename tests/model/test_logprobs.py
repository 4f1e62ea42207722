"""Numbers about tokens from hidden states, held to NumPy in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.losses.distillation import forward_kl, jsd, reverse_kl
from helpers.model import logprobs

N, D, V = 11, 6, 23


def case(seed=0, size=1.0, dtype=jnp.float32):
    """(hidden, table, targets, weights) of random tokens."""
    rng = np.random.default_rng(seed)
    hidden, table = (
        jnp.asarray(size * rng.normal(size=shape), dtype) for shape in ((N, D), (V, D))
    )
    targets = jnp.asarray(rng.integers(V, size=N))
    return hidden, table, targets, rng.normal(size=N)


def truth(hidden, table, targets, weights, softcap=np.inf):
    """Log-probabilities, entropies, and the slopes of Σ weight · log-probability."""
    hidden, table = (np.asarray(x, np.float64) for x in (hidden, table))
    scores, bend = hidden @ table.T, 1.0
    if softcap < np.inf:
        scores, bend = softcap * np.tanh(scores / softcap), np.cosh(scores / softcap)
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    pull = weights[:, None] * (np.eye(V)[targets] - p) / bend**2
    logprobs = np.log(p)[np.arange(N), targets]
    entropy = -(p * np.log(p)).sum(axis=1)
    return logprobs, entropy, pull @ table, pull.T @ hidden


def of_targets(table, _, hidden, targets):
    return logprobs.chosen_logprobs(hidden, table, targets)


@functools.partial(jax.jit, static_argnums=(4, 5))
def ours(hidden, table, targets, weights, chunk, train_table):
    """The same four, in chunks; without a slope of the table unless it is trained."""

    def total(hidden, table):
        values = logprobs.in_chunks(of_targets, table, None, (hidden, targets), chunk)
        return (weights * values[0]).sum() + 0 * values[1].sum(), values

    moved = (0, 1) if train_table else (0,)
    slopes, values = jax.grad(total, moved, has_aux=True)(hidden, table)
    return *values, *slopes


@pytest.mark.parametrize("train_table", [False, True])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_values_and_slopes_are_those_of_the_transcription(chunk, train_table):
    """Chunks that divide the tokens and that do not; the table frozen, and trained."""
    expected = truth(*case())
    values = ours(*case(), chunk, train_table)
    for x, y in zip(values, expected, strict=False):
        np.testing.assert_allclose(x, y, atol=2e-6)


@pytest.mark.parametrize("softcap, size", [(0.5, 1.0), (3.0, 2.0), (30.0, 1.0)])
def test_capped_scores_have_the_values_and_slopes_of_the_transcription(softcap, size):
    """Far below the cap, about it, and held back by it."""
    hidden, table, targets, weights = case(size=size)

    @jax.jit
    def capped(hidden, table):
        def total(hidden, table):
            values = logprobs.chosen_logprobs(hidden, table, targets, softcap)
            return (weights * values[0]).sum(), values

        slopes, values = jax.grad(total, (0, 1), has_aux=True)(hidden, table)
        return *values, *slopes

    expected = truth(hidden, table, targets, weights, softcap)
    for x, y in zip(capped(hidden, table), expected, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5)
    scores = logprobs.logits(hidden, table, softcap)
    assert np.abs(scores).max() <= softcap
    assert (np.abs(hidden @ table.T).max() > softcap) == (softcap < 30), "held back"


def test_a_frozen_table_saves_products():
    lowered = [
        ours.lower(*case(), 100, train_table).as_text() for train_table in (False, True)
    ]
    large = [text.count("stablehlo.dot_general") for text in lowered]
    # Beside them stands each target's own logit, a product of two rows.
    assert large[0] < large[1], large


def test_a_likely_targets_slope_does_not_drown_in_bfloat16():
    """p = 1 - 1e-4: the slope is 1e-4 of a row, and bfloat16 has 8 bits."""
    rng = np.random.default_rng(0)
    hidden = jnp.zeros((1, D)).at[0, 0].set(1.0).astype(jnp.bfloat16)
    table = jnp.asarray(rng.normal(size=(V, D)), jnp.bfloat16)
    table = table.at[:, 0].set(0).at[3, 0].set(12.25)
    targets = jnp.array([3])

    def total(hidden):
        return of_targets(table, None, hidden, targets)[0].sum()

    slope = np.asarray(jax.grad(total)(hidden), np.float64)
    scores = np.asarray(hidden, np.float64) @ np.asarray(table, np.float64).T
    p = np.exp(scores) / np.exp(scores).sum()
    assert 1e-5 < 1 - p[0, 3] < 1e-3
    expected = (np.eye(V)[[3]] - p) @ np.asarray(table, np.float64)
    np.testing.assert_allclose(slope, expected, rtol=0.02, atol=1e-6)


DIVERGENCES = {
    "forward": (forward_kl, lambda p, q: q * np.log(q / p)),
    "reverse": (reverse_kl, lambda p, q: p * np.log(p / q)),
    "jsd": (
        functools.partial(jsd, beta=0.3),
        lambda p, q: (
            0.3 * q * np.log(q / (0.3 * q + 0.7 * p))
            + 0.7 * p * np.log(p / (0.3 * q + 0.7 * p))
        ),
    ),
}


@pytest.mark.parametrize("softcap, train_table", [(0.0, False), (2.0, True)])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_divergence_of_all_words_has_its_slope_too(name, train_table, softcap):
    """From a teacher of another width: the equation, and its central differences."""
    hidden, table, targets, weights = case(size=0.5)
    rng = np.random.default_rng(1)
    wise, wise_table = (
        jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((N, 4), (V, 4))
    )
    divergence, equation = DIVERGENCES[name]

    def compare(table, wise_table, hidden, wise, targets):
        student, chosen = logprobs.all_logprobs(hidden, table, targets, softcap)
        teacher, _ = logprobs.all_logprobs(wise, wise_table, targets, softcap)
        return divergence(student, teacher), chosen

    def total(hidden, table):
        given = hidden, wise, targets
        values = logprobs.in_chunks(compare, table, wise_table, given, 4)
        return (weights * values[0]).sum(), values

    moved = (0, 1) if train_table else (0,)
    slopes, values = jax.jit(jax.grad(total, moved, has_aux=True))(hidden, table)

    def softmax(hidden, table):
        scores = hidden @ table.T
        scores = softcap * np.tanh(scores / softcap) if softcap else scores
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    at, teacher = (
        [np.asarray(x, np.float64) for x in pair]
        for pair in ((hidden, table), (wise, wise_table))
    )
    teacher = softmax(*teacher)

    def exact(hidden, table):
        return equation(softmax(hidden, table), teacher).sum(axis=1)

    np.testing.assert_allclose(values[0], exact(*at), rtol=1e-5, atol=1e-6)
    chosen = np.log(softmax(*at)[np.arange(N), targets])
    np.testing.assert_allclose(values[1], chosen, rtol=1e-5)
    for i, slope in enumerate(slopes):
        direction = rng.normal(size=at[i].shape)
        ends = [[*at], [*at]]
        for end, step in zip(ends, (1e-5, -1e-5), strict=True):
            end[i] = at[i] + step * direction
        rate = (weights * (exact(*ends[0]) - exact(*ends[1]))).sum() / 2e-5
        assert (np.asarray(slope) * direction).sum() == pytest.approx(rate, rel=1e-4)
