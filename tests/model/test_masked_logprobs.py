"""Tokens that nobody asks for are left out: values, gradients, and what is computed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.model import logprobs

V, D, TOKENS = 41, 6, 23


def drawn(n, seed=0):
    """Hidden states, a table, targets and weights of n tokens."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    return normal(n, D), normal(V, D), jnp.asarray(rng.integers(0, V, n)), normal(n)


def of_targets(table, _, hidden, targets):
    return logprobs.chosen_logprobs(hidden, table, targets, 0.0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def found_with_gradient(chunk, by, mask, hidden, table, targets, weights):
    """Ours, and what all tokens together give: values and gradients of both."""

    def some(hidden, table):
        given = (hidden, targets), mask, chunk
        values = logprobs.masked_in_chunks(of_targets, table, *given)
        return (weights * values[0]).sum(), values

    def every(hidden, table):
        values = of_targets(table, None, hidden, targets)
        values = [jnp.where(mask, x, 0.0) for x in values]
        return (weights * values[0]).sum(), tuple(values)

    return [jax.grad(f, by, has_aux=True)(hidden, table) for f in (some, every)]


@settings(max_examples=15, deadline=None)
@given(
    mask=st.lists(st.booleans(), min_size=TOKENS, max_size=TOKENS),
    program=st.sampled_from([(1, 0), (5, (0, 1)), (30, 0)]),
)
def test_numbers_and_gradients_are_those_of_all_tokens(mask, program):
    """In chunks of one token, of a few and of more than there are."""
    chunk, by = program
    ours, theirs = found_with_gradient(chunk, by, jnp.asarray(mask), *drawn(TOKENS))
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5)


@pytest.mark.parametrize(("wanted", "computed"), [(0, 0), (1, 1), (8, 1), (9, 2)])
def test_a_chunk_without_a_token_that_is_asked_for_is_not_computed(wanted, computed):
    hidden, table, targets, _ = drawn(37)
    order = [0, *np.random.default_rng(1).permutation(range(1, 37))]
    mask = np.zeros(37, bool)
    mask[order[:wanted]] = True
    calls = []

    def counted(table, fixed, hidden, targets):
        jax.debug.callback(lambda: calls.append(1))
        return of_targets(table, fixed, hidden, targets)

    values = logprobs.masked_in_chunks(counted, table, (hidden, targets), mask, 8)
    jax.block_until_ready(values)
    jax.effects_barrier()
    assert len(calls) == computed
