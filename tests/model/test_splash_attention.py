"""The kernel of long texts against plain attention: what is found, and gradients."""

import dataclasses
import functools

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import simulated_devices
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded_long_texts import T, texts

from helpers.model import vision
from helpers.model.attention import Reach
from helpers.model.config import ModelConfig
from helpers.model.fast import splash_attention


def seen(segments, back, whole):
    """By whom, in plain loops of NumPy: (P, G, T, S)."""
    t, s = np.arange(segments.shape[-1])[:, None], np.arange(segments.shape[-1])
    allowed = (t >= s) & (bool(whole) | (t - s < (back or T)))
    same = segments[..., :, None] == segments[..., None, :]
    return allowed & same & (segments[..., None, :] > 0)


def by_hand(query, piece, mask):
    """Softmax attention as its equation stands."""
    scores = jnp.einsum("pgkrth,pgkhs->pgkrts", query, piece[0])
    weights = jax.nn.softmax(jnp.where(mask[:, :, None, None], scores, -jnp.inf), -1)
    return jnp.einsum("pgkrts,pgksh->pgkrth", weights, piece[1])


@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 99),
    back=st.sampled_from([0, 1, 50, 128, 300]),
    whole=st.sampled_from([False, True, "traced", "traced true"]),
    sizes=st.sampled_from([(1, 1, 1, 1), (2, 1, 1, 3), (1, 2, 2, 2)]),
)
def test_the_kernel_finds_what_attention_finds_and_so_do_its_gradients(
    seed, back, whole, sizes
):
    query, piece, segments = texts(
        seed, **dict(zip("PGKR", sizes, strict=True)), H=2 ** (3 + seed % 5)
    )
    if isinstance(whole, str):  # as in a scan over layers of both kinds
        whole = jnp.array(whole == "traced true")
    mask = seen(np.asarray(segments), back, whole)
    real = (segments > 0)[:, :, None, None, :, None]
    weights = jnp.where(real, jax.random.normal(jax.random.key(1), query.shape), 0)
    reach = Reach(0, back, whole, segments)

    def of(attend):
        def total(query, piece):
            mixed = jnp.where(real, attend(query, piece), 0)
            return jnp.sum(mixed * weights), mixed

        gradients = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
        return jax.jit(gradients)(query, piece)

    kernel = splash_attention.attend_long
    ours = of(lambda query, piece: kernel(query, [piece], reach, interpret=True))
    masked = jnp.where(real[..., 0, 0, :, :], mask, True)  # of padding: no NaN
    theirs = of(lambda query, piece: by_hand(query, piece, masked))
    theirs = jax.tree.leaves(theirs)  # a query that sees itself alone has a slope of 0
    near = 1e-5 * max(1, *(float(jnp.abs(x).max()) for x in theirs[1:]))
    for a, b in zip(jax.tree.leaves(ours), theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=near, rtol=1e-5)


@pytest.mark.parametrize("there", [(), (np.arange(200) < [[200], [61]],)])
def test_patches_find_what_they_find_in_blocks_and_learn_the_same(there):
    sizes = (2, 200 if there else 256, 2, 72)
    keys = jax.random.split(jax.random.key(0), 4)
    q, k, v, weights = (jax.random.normal(key, sizes) for key in keys)
    real = there[0][..., None, None] if there else True

    def of(attend):
        def total(*given):
            return jnp.sum(jnp.where(real, attend(*given) * weights, 0))

        def both(*given):
            return jnp.where(real, attend(*given), 0), jax.grad(total, (0, 1, 2))(
                *given
            )

        return jax.jit(both)(q, k, v)

    scale = 0.7 * sizes[-1] ** -0.5
    plain = of(lambda q, k, v: vision.in_blocks(q, k, v, scale, *there))
    kernel = functools.partial(splash_attention.attend_pictures, interpret=True)
    ours = of(lambda q, k, v: kernel(q * scale, k, v, *there))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_pairs_are_those_of_blocks_in_which_something_is_seen():
    for length, size in ((4, 2), (12, 3), (40, 8), (40, 40)):
        for back in (0, 1, 2, 3, 7, 8, 9, 40, 60):
            looked_at = {
                (t // size, s // size)
                for t in range(length)
                for s in range(t + 1)
                if not back or t - s < back
            }
            pairs = splash_attention.pairs(length, size, back)
            assert pairs == len(looked_at) * size**2


GEMMA = ModelConfig(
    "gemma3_text", vocab_size=64, width=32, layers=2, heads=4, kv_heads=2, head_dim=8,
    ff=32, pattern=2, window=100,
)  # fmt: skip
# A local layer and a full one, and one that shares its keys; heads of two widths.
FEW = {"kinds": "lff", "sharing": 1, "vocab_size": 64, "full_head_dim": 10}
GEMMA4 = gemma4_shapes.config(**FEW)
GEMMA4 = dataclasses.replace(GEMMA4, window=100)


@pytest.mark.parametrize("config, layers", [(GEMMA, 1), (GEMMA4, 3)])
def test_a_model_learns_the_same_through_the_kernel(config, layers, monkeypatch):
    """Loss and gradients of a packed row, the kernel by its interpreter.

    Gemma 4's are its logits alone: its layers take the same kernel's gradients.
    """
    policy = tiny_models.of_config(config)
    tokens = jax.random.randint(jax.random.key(0), (1, 1, T), 0, 64)
    segments = jnp.where(jnp.arange(T) < 90, 1, 2)[None, None]
    positions = jnp.where(segments == 1, 0, -90) + jnp.arange(T)

    def found():
        def logits(policy):
            hidden, _ = policy(tokens, positions, segments)
            return policy.logits(hidden)

        def loss(policy):
            return jnp.mean(logits(policy) ** 2)

        return nnx.jit(logits if config.gemma4 else nnx.value_and_grad(loss))(policy)

    plain = found()
    kernel, looked = splash_attention.attend_long, []

    def interpreted(*given, tpu, default):
        looked.append(given[0].shape)
        return tpu(*given)

    monkeypatch.setattr(splash_attention, "LONG", T)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    monkeypatch.setattr(jax.lax, "platform_dependent", interpreted)
    monkeypatch.setattr(
        splash_attention, "attend_long", functools.partial(kernel, interpret=True)
    )
    through = found()
    assert len(looked) == layers  # a scan of like layers looks once
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(through), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * float(jnp.abs(a).max()))


def test_on_a_mesh_each_device_takes_its_rows_and_heads():
    simulated_devices.run("sharded_long_texts.py", devices=4)
