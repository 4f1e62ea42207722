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

from helpers.model import attention, lora, transformer
from helpers.model.attention import attend
from helpers.model.logprobs import logits
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


@pytest.mark.parametrize("length", [65, 128, 300])
def test_blocks_of_queries_have_the_values_and_gradients_of_all_at_once(length):
    keys = jax.random.split(jax.random.key(length), 6)
    P, G, K, R, H, S = 1, 2, 2, 2, 4, 3
    arrays = [
        jax.random.normal(key, shape)
        for key, shape in zip(
            keys,
            [(P, G, K, R, length, H)]
            + [(P, 1, K, H, S), (P, 1, K, S, H)]
            + [(P, G, K, H, length), (P, G, K, length, H)],
            strict=False,
        )
    ]
    causal = jnp.tril(jnp.ones((length, length), bool))
    dropped = jax.random.bernoulli(keys[5], 0.3, (P, G, length, length))
    masks = [jnp.ones((P, G, length, S), bool), causal & ~dropped]

    def total(function, query, *kv):
        out = function(query, [kv[:2], kv[2:]], masks)
        return (jnp.sin(out) * jnp.arange(length)[:, None]).sum(), out

    def with_gradients(function):
        slopes = jax.value_and_grad(
            functools.partial(total, function), range(5), has_aux=True
        )
        return jax.jit(slopes)(*arrays)

    found = with_gradients(attention.attend_causally)
    expected = with_gradients(attention.attend)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3),
        found,
        expected,
    )


@pytest.mark.parametrize("family", ["gemma3_text", "llama"])
def test_tokens_may_come_in_any_pieces(family):
    """A prompt, then one token, then more: the hidden states of the text at once."""
    model, tokens = cached_model(family), texts(2, T)[:, None]
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
    model = cached_model()
    prompt, answers = texts(2, 6)[:, None], texts(6, 4, seed=1).reshape(2, 3, 4)
    _, _, prefix = forward(model, prompt)
    positions = np.broadcast_to(6 + np.arange(4), answers.shape)
    shared, _, _ = forward(model, answers, positions, earlier=[prefix])
    repeated = prefix._replace(
        keys=jnp.repeat(prefix.keys, 3, axis=2),
        values=jnp.repeat(prefix.values, 3, axis=2),
        positions=jnp.repeat(prefix.positions, 3, axis=1),
        segments=jnp.repeat(prefix.segments, 3, axis=1),
    )
    own, _, _ = forward(model, answers, positions, earlier=[repeated])
    np.testing.assert_allclose(shared, own, atol=2e-6)
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


@pytest.mark.parametrize("family", ["gemma3_text", "qwen2"])
def test_packed_examples_never_see_each_other(family):
    """Examples read the same beside any neighbour, and alone."""
    a, b, c = texts(3, 6)
    padding = np.full(6, 5)
    rows = [(a, b), (a, c), (c, b), (b, padding)]
    tokens = np.array([np.concatenate(row) for row in rows])[:, None]
    positions = np.broadcast_to(np.tile(np.arange(6), 2), tokens.shape)
    segments = np.broadcast_to(np.repeat([1, 2], 6), tokens.shape).copy()
    segments[3, 0, 6:] = 0
    hidden, _, _ = forward(cached_model(family), tokens, positions, segments)
    first, second = hidden[:, 0, :6], hidden[:, 0, 6:]
    np.testing.assert_allclose(first[0], first[1], atol=1e-6)
    np.testing.assert_allclose(second[0], second[2], atol=1e-6)
    np.testing.assert_allclose(second[0], first[3], atol=1e-6)
    assert np.all(np.isfinite(hidden))


def test_what_stands_in_the_padding_changes_nothing():
    tokens = np.repeat(texts(1, T)[:, None], 2, axis=0)
    tokens[1, 0, 9:] = 3
    segments = np.broadcast_to(np.arange(T) < 9, tokens.shape)
    hidden, _, _ = forward(cached_model(), tokens, None, segments)
    np.testing.assert_array_equal(hidden[0, 0, :9], hidden[1, 0, :9])


def test_a_query_that_may_see_nothing_stays_finite():
    """Padding has nothing to look at; neither its value nor its gradient is NaN."""
    rng = np.random.default_rng(0)
    query = jnp.asarray(rng.normal(size=(1, 1, 2, 2, 3, 4)), jnp.float32)
    keys = jnp.asarray(rng.normal(size=(1, 1, 2, 5, 4)), jnp.float32)
    nothing = jnp.zeros((1, 1, 3, 5), bool)

    def total(query, keys):
        return attend(query, [(keys.swapaxes(3, 4), keys)], [nothing]).sum()

    value, gradients = jax.value_and_grad(total, argnums=(0, 1))(query, keys)
    assert np.isfinite(value) and all(np.all(np.isfinite(g)) for g in gradients)


def test_matmul_has_the_gradient_of_the_plain_product():
    rng = np.random.default_rng(0)
    x, w, c = (
        jnp.asarray(rng.normal(size=s), jnp.float32)
        for s in [(2, 3, 5), (5, 4), (2, 3, 4)]
    )
    ours = jax.grad(lambda x, w: (matmul(x, w) * c).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(ours[0], np.einsum("abf,df->abd", c, w), rtol=1e-5)
    np.testing.assert_allclose(ours[1], np.einsum("abd,abf->df", x, c), rtol=1e-5)


def test_matmul_gives_gradients_in_the_dtypes_of_its_inputs():
    x, w = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 4), jnp.float32)
    for_x, for_w = jax.grad(lambda x, w: matmul(x, w).sum(), argnums=(0, 1))(x, w)
    assert (for_x.dtype, for_w.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_array_equal(for_x, np.full((2, 3), 4.0))


def rounded(x):
    """To bfloat16, as float64."""
    return np.asarray(x.astype(jnp.bfloat16), np.float64)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 4), (6, 40, 1)])
def test_a_product_with_a_bfloat16_weight_rounds_its_input_and_sums_in_float32(sizes):
    needs_bfloat16()
    rng, (rows, inner, outer) = np.random.default_rng(0), sizes
    shapes = [(2, rows, inner), (inner, outer), (2, rows, outer)]
    x, w, c = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
    w = w.astype(jnp.bfloat16)
    near = {"rtol": 1e-5, "atol": 1e-5}
    learned = np.einsum("brd,brv->dv", *(np.asarray(y, np.float64) for y in (x, c)))
    for product, weight, turned in (
        (matmul, w, lambda y: y),
        (logits, w.T, np.transpose),
    ):
        ours, backward = jax.vjp(product, x, weight)
        for_x, for_w = backward(c)
        assert (ours.dtype, for_x.dtype, for_w.dtype) == (x.dtype, x.dtype, w.dtype)
        np.testing.assert_allclose(ours, rounded(x) @ rounded(w), **near)
        np.testing.assert_allclose(for_x, rounded(c) @ rounded(w).T, **near)
        np.testing.assert_allclose(turned(for_w), learned, rtol=0.01, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_weights_among_float32_lose_what_rounding_their_inputs_loses(family):
    """Nearer to float32 on the same weights than all in bfloat16 is; and not equal."""
    needs_bfloat16()
    tokens = texts(2, T)[:, None]
    short = make(family, dtype=jnp.bfloat16)
    _, all_short, _ = forward(short, tokens)
    graph, state = nnx.split(short)
    state = jax.tree.map(lambda x: x.astype(jnp.float32), state)
    exact_model = nnx.merge(graph, state)
    exact_model.activations = short.activations = "float32"
    hidden, mixed, kv = forward(short, tokens)
    _, exact, _ = forward(exact_model, tokens)
    assert (hidden.dtype, kv.values.dtype, mixed.dtype) == 3 * (jnp.float32,)
    mixed_error, short_error = (np.abs(x - exact).mean() for x in (mixed, all_short))
    assert 0 < mixed_error < 0.8 * short_error


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
        assert count_params(cached_model(family)) == sum(
            x.size for x in tensors.values()
        )
    D, F, H, N, K, L = 16, 20, 6, 4, 2, 3
    norms = 4 * D + 2 * H
    layer = D * H * (N + 2 * K) + N * H * D + 3 * D * F + norms
    assert count_params(cached_model("gemma3_text")) == VOCAB * D + L * layer + D


def test_an_unknown_way_to_save_memory_is_refused_with_those_there_are():
    model = cached_model("qwen2")
    model = nnx.merge(*nnx.split(model))
    model.remat = "layers"
    with pytest.raises(ValueError, match="remat is 'layers': choose one of layer, at"):
        model(jnp.zeros((1, 1, 3), jnp.int32), jnp.arange(3)[None, None])


def test_several_layers_to_a_turn_are_refused_where_layers_are_of_several_kinds():
    model = make("gemma4_text")
    model.unroll = 2
    with pytest.raises(
        ValueError, match="unroll is 2: Gemma 4's layers are of several"
    ):
        model(jnp.zeros((1, 1, 3), jnp.int32), jnp.arange(3)[None, None])


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3"])
def test_a_token_walked_layer_by_layer_is_that_of_the_scan(family, monkeypatch):
    """With a base in few bits; keys and values, too, after a prompt that is shared."""
    model = adapted(lora.quantize(cached_model(family)))
    prompt, token = texts(2, 9)[:, None], texts(6, 1).reshape(2, 3, 1)
    _, prefix = model(prompt, np.broadcast_to(np.arange(9), prompt.shape))
    found = walked_both_ways(model, transformer, token, 9, prefix, monkeypatch)
    for ours, theirs in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("few_bits", "dtype", "tokens", "scanned"),
    [
        (True, jnp.bfloat16, 1, False),
        (False, jnp.bfloat16, 1, True),
        (True, jnp.float32, 1, True),
        (True, jnp.bfloat16, 2, True),
    ],
)
def test_only_single_tokens_on_few_bits_in_bfloat16_go_without_a_scan(
    few_bits, dtype, tokens, scanned
):
    model = make("gemma3_text", dtype=dtype)
    model.activations = jnp.dtype(dtype).name
    if few_bits:
        model = lora.quantize(model)
    text = np.zeros((1, 1, tokens), np.int32)
    graph, state = nnx.split(model)
    program = jax.make_jaxpr(lambda s: nnx.merge(graph, s)(text, text)[0])(state)
    assert ("scan" in str(program)) == scanned
