"""Tokens and log-probabilities from logits, against float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from helpers.generation.next_token import Chooser, draw, tempering


@pytest.mark.parametrize("size", [1, 33, 1024, 8200])
def test_draw_inverts_the_cumulative_distribution(size):
    """Against a sorted search in float64, for vocabularies of any number of blocks."""
    rng = np.random.default_rng(size)
    logits = 3 * rng.normal(size=(400, size))
    logits[rng.random((400, size)) < 0.3] = -np.inf
    logits[:, rng.integers(size)] = 1.0
    uniform = rng.random(400).astype(np.float32)
    ours = np.asarray(draw(jnp.asarray(logits, jnp.float32), jnp.asarray(uniform)))
    p = np.exp(logits)
    edges = np.cumsum(p, axis=-1) / p.sum(axis=-1, keepdims=True)
    for row, token in enumerate(ours):
        low = edges[row, token] - p[row, token] / p[row].sum()
        assert p[row, token] > 0
        assert low - 1e-5 <= uniform[row] <= edges[row, token] + 1e-5


@pytest.mark.parametrize("size", [33, 8200])
def test_draw_never_picks_what_is_forbidden_at_the_ends(size):
    """u = 0 and the largest u below 1, with the first and last tokens at -inf."""
    logits = np.full((2, size), -np.inf, np.float32)
    logits[:, 3:5] = [-2.0, 1.0]
    uniform = np.array([0, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    tokens = draw(jnp.asarray(logits), jnp.asarray(uniform))
    np.testing.assert_array_equal(tokens, [3, 4])


@settings(max_examples=20, deadline=None)
@given(
    temperature=st.sampled_from([0, 0.3, 1, 2.5]),
    size=st.sampled_from([33, 8200]),  # few blocks, wide ones
    spread=st.sampled_from([0.1, 1.0, 40.0]),
    shift=st.sampled_from([-300.0, 0.0, 300.0]),
    seed=st.integers(0, 2**16),
)
def test_a_log_prob_is_the_untempered_models_however_the_token_was_chosen(
    temperature, size, spread, shift, seed
):
    """What drawing sums up on its way is that sum only where nothing was changed."""
    rng = np.random.default_rng(seed)
    logits = (shift + spread * rng.normal(size=(2, 3, size))).astype(np.float32)
    keys = jax.random.split(jax.random.key(seed), (2, 3))
    heat = tempering(temperature) if temperature else 0
    choose = Chooser(keys, heat)
    token, logprob = map(np.asarray, choose(jnp.asarray(logits), seed))
    truth = special.log_softmax(logits.astype(np.float64), axis=-1)
    truth = np.take_along_axis(truth, token[..., None], axis=-1)[..., 0]
    atol = 1e-6 * (np.abs(logits).max() + 10)
    np.testing.assert_allclose(logprob, truth, atol=atol)
    if temperature == 0:
        np.testing.assert_array_equal(token, logits.argmax(axis=-1))
