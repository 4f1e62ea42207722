"""Local layers in blocks of queries: what lies before the window is never computed."""

import dataclasses
import functools

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx
from tiny_models import texts

from helpers.model import attention
from helpers.model.attention import BLOCK, Reach, attend_causally
from helpers.model.config import ModelConfig

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


GEMMA3 = ModelConfig(*("gemma3_text", 64, 16, 6, 2, 1, 8, 32), pattern=3, window=20)
GEMMA4 = [
    dataclasses.replace(gemma4_shapes.config(**shape, vocab_size=64), window=20)
    for shape in gemma4_shapes.NAMED.values()
]


@pytest.mark.parametrize(
    ("config", "remat"),
    [
        *((GEMMA3, remat) for remat in ("none", "layer", "attention")),
        *((config, "attention") for config in GEMMA4),
    ],
)
def test_a_model_with_local_layers_says_the_same_in_blocks(config, remat, monkeypatch):
    """Hidden states and gradients, with whole layers among the local ones."""
    model = tiny_models.of_config(config)
    model.remat = remat
    tokens = texts(2, 2 * BLOCK + 9, vocab=64)[:, None]
    positions = np.broadcast_to(np.arange(tokens.shape[-1]), tokens.shape)
    graph, state = nnx.split(model)

    def loss(state):
        hidden = nnx.merge(graph, state)(tokens, positions)[0]
        return (jnp.sin(hidden) * jnp.arange(tokens.shape[-1])[:, None]).mean(), hidden

    both = []
    for block in (BLOCK, 10**6):
        monkeypatch.setattr(attention, "BLOCK", block)
        both.append(jax.jit(jax.value_and_grad(loss, has_aux=True))(state))
    for ours, expected in zip(*map(jax.tree.leaves, both), strict=True):
        # The scale of Gemma 4's last layer changes nothing: its slope is rounding.
        near = 2e-5 * float(np.abs(expected).max()) + 1e-6
        np.testing.assert_allclose(ours, expected, atol=near)
