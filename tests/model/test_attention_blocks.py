"""Local layers in blocks of queries: what lies before the window is never computed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.model import attention
from helpers.model.attention import BLOCK, Reach, attend_causally

P, G, K, R, H, S = 1, 2, 1, 2, 4, 5


def case(T, window, whole, seed):
    """Queries, a shared prompt and their own tokens, and a layer's masks."""
    keys = jax.random.split(jax.random.key(seed), 6)
    shapes = [(P, G, K, R, T, H), (P, 1, K, H, S), (P, 1, K, S, H)]
    shapes += [(P, G, K, H, T), (P, G, K, T, H)]
    query, *kv = map(jax.random.normal, keys, shapes)
    distance = jnp.arange(T)[:, None] - jnp.arange(T)
    own = (distance >= 0) & (whole | (distance < window))
    own &= ~jax.random.bernoulli(keys[5], 0.2, (P, G, T, T)) | (distance == 0)
    return query, kv, [jnp.ones((P, G, T, S), bool), own]


def values_and_slopes(function, query, kv, masks):
    """What is found, and its gradients by queries, keys and values."""

    def total(query, *kv):
        found = function(query, [kv[:2], kv[2:]], masks)
        return (jnp.sin(found) * jnp.arange(query.shape[4])[:, None]).sum(), found

    return jax.jit(jax.value_and_grad(total, range(5), has_aux=True))(query, *kv)


@pytest.mark.parametrize("T, window", [(2 * BLOCK, 1), (391, 60), (391, BLOCK + 1)])
@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_finds_what_all_scores_together_would(T, window, whole):
    query, kv, masks = case(T, window, whole, T + window)
    reach = Reach(0, window, jnp.asarray(whole))
    near = functools.partial(attend_causally, reach=reach)
    found = values_and_slopes(near, query, kv, masks)
    expected = values_and_slopes(attention.attend, query, kv, masks)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3),
        found,
        expected,
    )


@pytest.mark.parametrize("whole", [False, True])
def test_keys_before_the_window_are_not_read(whole):
    """Not a number there: a product that reads it, masked or not, would be none."""
    T, window, gone = 3 * BLOCK, 20, BLOCK - 20
    query, (*prompt, keys, values), masks = case(T, window, False, 0)
    lost = keys.at[..., :gone].set(jnp.nan), values.at[..., :gone, :].set(jnp.nan)
    reach = Reach(0, window, jnp.asarray(whole))
    near = functools.partial(attend_causally, reach=reach)
    (_, found), slopes = values_and_slopes(near, query, [*prompt, *lost], masks)
    (_, expected), _ = values_and_slopes(near, query, [*prompt, keys, values], masks)
    later = slice(2 * BLOCK, None)  # a whole block after the window of the lost ones
    if whole:
        assert np.isnan(found[..., later, :]).any()
        return
    np.testing.assert_allclose(found[..., later, :], expected[..., later, :], atol=1e-6)
    assert np.isfinite(slopes[0][..., later, :]).all()
