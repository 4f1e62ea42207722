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
        found = logprobs.masked_in_chunks(of_targets, table, *given)
        return (weights * found[0]).sum(), found

    def every(hidden, table):
        found = of_targets(table, None, hidden, targets)
        found = [jnp.where(mask, x, 0.0) for x in found]
        return (weights * found[0]).sum(), tuple(found)

    return [jax.grad(f, by, has_aux=True)(hidden, table) for f in (some, every)]


@settings(max_examples=40, deadline=None)
@given(
    mask=st.lists(st.booleans(), min_size=TOKENS, max_size=TOKENS),
    chunk=st.sampled_from([1, 5, 30]),
    by=st.sampled_from([0, (0, 1)]),
)
def test_numbers_and_gradients_are_those_of_all_tokens(mask, chunk, by):
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

    found = logprobs.masked_in_chunks(counted, table, (hidden, targets), mask, 8)
    jax.block_until_ready(found)
    jax.effects_barrier()
    assert len(calls) == computed


def test_it_pays_in_float32_on_one_cpu_with_a_large_table(monkeypatch):
    hidden = jnp.zeros((2, 4))
    large = jax.ShapeDtypeStruct((logprobs.LARGE // 4, 4), jnp.float32)
    small = jax.ShapeDtypeStruct((logprobs.LARGE // 4 - 1, 4), jnp.float32)
    assert logprobs.masking_pays(hidden, large) and not logprobs.masking_pays(
        hidden, small
    )
    assert not logprobs.masking_pays(hidden.astype(jnp.bfloat16), large), "as on TPUs"
    monkeypatch.setattr(logprobs, "mesh_in_use", object)
    assert not logprobs.masking_pays(hidden, large), "the tokens lie on several devices"
    monkeypatch.undo()
    monkeypatch.setattr(logprobs.jax, "default_backend", lambda: "gpu")
    assert not logprobs.masking_pays(hidden, large)
