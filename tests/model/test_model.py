"""The decoder against a plain NumPy transcription, and what it must not see."""

import functools

import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import pytest
from flax import nnx
from tiny_models import (
    FAMILIES,
    VOCAB,
    WINDOW,
    adapted,
    cached_model,
    cached_tensors,
    needs_bfloat16,
    texts,
    walked_both_ways,
)
from tiny_models import model as make

from helpers.model import attention, lora
from helpers.model.attention import attend
from helpers.model.ops import matmul
from helpers.model.transformer import count_params

T = 13


@functools.partial(jax.jit, static_argnums=0)
def _forward(graph, state, arguments):
    model = nnx.merge(graph, state)
    hidden, kv = model(*arguments)
    return hidden, model.logits(hidden), kv


def forward(model, tokens_PGT, positions_PGT=None, segments_PGT=None, earlier=()):
    """(hidden, logits, KV) of new tokens, compiled once per shape."""
    if positions_PGT is None:
        positions_PGT = np.broadcast_to(
            np.arange(tokens_PGT.shape[-1]), tokens_PGT.shape
        )
    arguments = jnp.asarray(tokens_PGT), jnp.asarray(positions_PGT, jnp.int32)
    if segments_PGT is not None:
        segments_PGT = jnp.asarray(segments_PGT, jnp.int32)
    return _forward(*nnx.split(model), (*arguments, segments_PGT, tuple(earlier)))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_a_plain_transcription(family):
    """Text longer than the window, several key heads, odd sizes, all weights random."""
    tensors, hf = cached_tensors(family)
    tokens = texts(2, T)
    _, logits, _ = forward(cached_model(family), tokens[:, None])
    for row, expected in zip(tokens, logits[:, 0], strict=True):
        naive = naive_decoder.logits(tensors, hf, row.tolist())
        np.testing.assert_allclose(expected, naive, atol=1e-5)


def test_a_long_text_in_blocks_equals_a_plain_transcription():
    """Longer than a block of queries, and not a multiple of one."""
    tensors, hf = cached_tensors("gemma3_text")
    (tokens,) = texts(1, 2 * attention.BLOCK + 9)
    _, logits, _ = forward(cached_model("gemma3_text"), tokens[None, None])
    naive = naive_decoder.logits(tensors, hf, tokens.tolist())
    np.testing.assert_allclose(logits[0, 0], naive, atol=5e-5)


def test_tokens_may_come_in_any_pieces():
    """A prompt, then one token, then more: the hidden states of the text at once."""
    model, tokens = cached_model(), texts(2, T)[:, None]
    whole, _, _ = forward(model, tokens)
    positions = np.broadcast_to(np.arange(T), tokens.shape)
    earlier, parts = [], []
    for here in (slice(0, 6), slice(6, 7), slice(7, 13)):
        hidden, _, kv = forward(
            model, tokens[..., here], positions[..., here], earlier=earlier
        )
        earlier.append(kv)
        parts.append(hidden)
    np.testing.assert_allclose(np.concatenate(parts, axis=2), whole, atol=2e-6)


def test_a_shared_prompt_serves_every_answer_of_its_group():
    """KV with g = 1 under queries of G = 3 is that KV repeated three times."""
    model = cached_model("llama")
    prompt, answers = texts(2, 6)[:, None], texts(6, 4, seed=1).reshape(2, 3, 4)
    _, _, prefix = forward(model, prompt)
    positions = np.broadcast_to(6 + np.arange(4), answers.shape)
    shared, _, _ = forward(model, answers, positions, earlier=[prefix])
    axes = {"keys": 2, "values": 2, "positions": 1, "segments": 1}
    repeated = {n: jnp.repeat(getattr(prefix, n), 3, axis=a) for n, a in axes.items()}
    each = [prefix._replace(**repeated)]
    alone, _, _ = forward(model, answers, positions, earlier=each)
    np.testing.assert_allclose(shared, alone, atol=2e-6)
    assert np.abs(shared[:, 0] - shared[:, 1]).max() > 0.1


@pytest.mark.parametrize("pattern, reach", [(2, WINDOW), (1, T)])
def test_a_token_is_seen_as_far_as_the_window_and_never_before_itself(pattern, reach):
    """One layer, local (the first of two) or global: who notices a changed token?"""
    model = make(layers=1, pattern=pattern)
    changed, at = texts(1, T), 3
    tokens = np.stack([changed[0], changed[0]])[:, None]
    tokens[1, 0, at] = (tokens[1, 0, at] + 1) % VOCAB
    hidden, _, _ = forward(model, tokens)
    differs = np.any(hidden[0, 0] != hidden[1, 0], axis=-1)
    assert np.flatnonzero(differs).tolist() == list(range(at, min(at + reach, T)))


def test_packed_examples_never_see_each_other():
    """Examples read the same beside any neighbour, and alone."""
    a, b, c = texts(3, 6)
    padding = np.full(6, 5)
    rows = [(a, b), (a, c), (c, b), (b, padding)]
    tokens = np.array([np.concatenate(row) for row in rows])[:, None]
    positions = np.broadcast_to(np.tile(np.arange(6), 2), tokens.shape)
    segments = np.broadcast_to(np.repeat([1, 2], 6), tokens.shape).copy()
    segments[3, 0, 6:] = 0
    hidden, _, _ = forward(cached_model(), tokens, positions, segments)
    first, second = hidden[:, 0, :6], hidden[:, 0, 6:]
    np.testing.assert_allclose(first[0], first[1], atol=1e-6)
    np.testing.assert_allclose(second[0], second[2], atol=1e-6)
    np.testing.assert_allclose(second[0], first[3], atol=1e-6)
    assert np.all(np.isfinite(hidden))


def test_a_query_that_may_see_nothing_stays_finite():
    """Padding has nothing to look at; neither its value nor its gradient is NaN."""
    rng = np.random.default_rng(0)
    query = jnp.asarray(rng.normal(size=(1, 1, 2, 2, 3, 4)), jnp.float32)
    keys = jnp.asarray(rng.normal(size=(1, 1, 2, 5, 4)), jnp.float32)
    nothing = jnp.zeros((1, 1, 3, 5), bool)

    def total(query, keys):
        return attend(query, [(keys.swapaxes(3, 4), keys)], [nothing]).sum()

    slopes = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    value, gradients = slopes(query, keys)
    assert np.isfinite(value) and all(np.all(np.isfinite(g)) for g in gradients)


def test_matmul_has_the_gradient_of_the_plain_product():
    rng = np.random.default_rng(0)
    x, w, c = (
        jnp.asarray(rng.normal(size=s), jnp.float32)
        for s in [(2, 3, 5), (5, 4), (2, 3, 4)]
    )
    slopes = jax.grad(lambda x, w: (matmul(x, w) * c).sum(), argnums=(0, 1))
    ours = jax.jit(slopes)(x, w)
    np.testing.assert_allclose(ours[0], np.einsum("abf,df->abd", c, w), rtol=1e-5)
    np.testing.assert_allclose(ours[1], np.einsum("abd,abf->df", x, c), rtol=1e-5)


def test_bfloat16_runs_and_stays_near_float32():
    """Hidden states in bfloat16, logits in float32; rounding of three digits or so."""
    needs_bfloat16()
    tokens = texts(2, T)[:, None]
    hidden, logits, kv = forward(make(dtype=jnp.bfloat16), tokens)
    assert (hidden.dtype, kv.keys.dtype) == (jnp.bfloat16, jnp.bfloat16)
    assert logits.dtype == jnp.float32
    _, exact, _ = forward(make(), tokens)
    error = np.abs(logits - exact)
    assert error.max() < 0.15 and error.mean() < 0.03


def test_count_params_counts_every_number_of_the_files():
    for family in FAMILIES:
        tensors, _ = cached_tensors(family)
        numbers = sum(x.size for x in tensors.values())
        assert count_params(cached_model(family)) == numbers


def test_a_token_walked_layer_by_layer_is_that_of_the_scan(monkeypatch):
    """With a base in few bits; keys and values, too, after a prompt that is shared."""
    base = lora.quantize(cached_model(layers=2))  # a local layer and a global one
    model = adapted(base, targets=("q", "down"))
    prompt, token = texts(2, 9)[:, None], texts(6, 1).reshape(2, 3, 1)
    _, _, prefix = forward(model, prompt)
    both = walked_both_ways(model, token, 9, prefix, monkeypatch)
    for ours, theirs in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
