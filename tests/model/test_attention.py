"""Attention's own gradient rule, held to a plain softmax that JAX differentiates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.model import attention

P, G, K, R, H = 2, 3, 2, 2, 8


def case(lengths, shared, T, dtype, seed=0):
    """Queries, pieces and masks; a piece that the group shares has one row for it."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape), dtype)

    rows = [1 if one else G for one in shared]
    pieces = [
        (normal(P, g, K, H, S), normal(P, g, K, S, H))
        for g, S in zip(rows, lengths, strict=True)
    ]
    masks = [jnp.asarray(rng.random((P, G, T, S)) < 0.7) for S in lengths]
    masks[-1] = masks[-1] | jnp.eye(T, lengths[-1], lengths[-1] - T, dtype=bool)
    return normal(P, G, K, R, T, H) * H**-0.5, pieces, masks


def plain(query, pieces, masks):
    """Everything repeated, side by side, float32."""
    keys, values = (
        jnp.concatenate([jnp.broadcast_to(x, (P, G, *x.shape[2:])) for x in each], axis)
        for each, axis in zip(zip(*pieces, strict=True), (-1, -2), strict=True)
    )
    exact = {"precision": "highest", "preferred_element_type": jnp.float32}
    scores = jnp.einsum("pgkrth,pgkhs->pgkrts", query, keys, **exact)
    allowed = jnp.concatenate(masks, axis=-1)[:, :, None, None]
    weights = jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf))
    return jnp.einsum("pgkrts,pgksh->pgkrth", weights, values, **exact)


@pytest.mark.parametrize(
    ("lengths", "shared", "T", "dtype", "bound"),
    [
        ((7,), (False,), 7, jnp.bfloat16, 0.03),
        ((5, 4, 3), (True, False, False), 1, jnp.float32, 3e-6),
        ((9, 6), (True, False), 6, jnp.float32, 3e-6),
    ],
)
def test_values_and_slopes_are_those_of_a_plain_softmax(
    lengths, shared, T, dtype, bound
):
    query, pieces, masks = case(lengths, shared, T, dtype)
    pull = jnp.asarray(np.random.default_rng(1).normal(size=query.shape), jnp.float32)

    def with_slopes(attend, *given):
        out, backward = jax.vjp(
            lambda *z: attend(*z, masks).astype(jnp.float32), *given
        )
        return out, backward(pull)

    mixed = jax.jit(with_slopes, static_argnums=0)(attention.attend, query, pieces)
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), (query, pieces))
    expected = jax.jit(with_slopes, static_argnums=0)(plain, *wide)
    for one, other in zip(*map(jax.tree.leaves, (mixed, expected)), strict=True):
        largest = float(jnp.abs(other).max())
        one = np.asarray(one, np.float32)
        np.testing.assert_allclose(one, other, atol=bound * largest)


@pytest.mark.parametrize("T", [1, attention.JOINED, attention.BLOCK + 5])
def test_pieces_side_by_side_say_what_each_on_its_own_says(T, monkeypatch):
    """Few queries look at every piece by itself, many at a copy of all; and in blocks,
    each without the keys that none of its queries may see."""
    query, pieces, masks = case((40, 9, T), (True, False, False), T, jnp.float32)
    masks[-1] = jnp.broadcast_to(jnp.tril(jnp.ones((T, T), bool)), masks[-1].shape)
    expected = jax.jit(plain)(query, pieces, masks)
    for joined in (1, 10**6):
        monkeypatch.setattr(attention, "JOINED", joined)
        mixed = jax.jit(attention.attend_causally)(query, pieces, masks)
        np.testing.assert_allclose(mixed, expected, atol=3e-6)


@pytest.mark.parametrize("T", [1, attention.JOINED])
def test_a_column_of_ones_that_values_keep_sums_weights_up(T):
    """A cache with room, whose ones stay where new tokens are written into it."""
    query, pieces, masks = case((7, 12), (True, False), T, jnp.float32)
    (keys, values), there = pieces[1], slice(4, 6)
    new = keys[..., :2] + 1, values[..., :2, :] + 1
    cached = [(k, attention.summing(v, H)) for k, v in pieces]
    cached[1] = attention.write_kv(cached[1], new, there.start)
    keys = keys.at[..., there].set(new[0])
    pieces[1] = keys, values.at[..., there, :].set(new[1])
    assert cached[1][1].shape[-1] == H + 1
    mixed = jax.jit(attention.attend)(query, cached, masks)
    expected = jax.jit(plain)(query, pieces, masks)
    np.testing.assert_allclose(mixed, expected, atol=3e-6)
