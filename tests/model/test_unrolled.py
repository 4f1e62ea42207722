"""Layers apart, with joined matrices: the same numbers as the stack they are of."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx
from tiny_models import VOCAB

from helpers.generation.sampling import append, generate, row_keys
from helpers.model import lora
from helpers.model.attention import KV
from helpers.model.fast import unrolled

SOME = ("q", "up", "down")  # of three products some matrices have no adapter
P, G, SEEN = 2, 3, 9  # more tokens than a local layer sees


def tokens(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).integers(3, VOCAB, shape))


def pieces(model):
    """What came before: a prompt that a group shares, then tokens of each answer."""
    positions = jnp.broadcast_to(jnp.arange(SEEN), (P, G, SEEN))
    _, prefix = model(tokens(0, P, 1, SEEN), positions[:, :1])
    _, rest = model(tokens(1, P, G, 2), positions[..., :2] + SEEN, earlier=(prefix,))
    return prefix, rest


def with_room(kv, room):
    """A cache of these tokens and as many free columns, which hold rubbish."""

    def wider(axis, x, filling):
        shape = [*x.shape]
        shape[axis] = room
        return jnp.concatenate([x, jnp.full(shape, filling, x.dtype)], axis=axis)

    fillings = (-1, 7.0), (-2, 7.0), (2, SEEN), (2, 0)
    return KV(*(wider(a, x, y) for x, (a, y) in zip(kv, fillings, strict=True)))


@pytest.mark.parametrize("family, adapters", [("gemma3_text", SOME), ("qwen2", None)])
def test_layers_apart_compute_what_the_stack_does(family, adapters):
    model = tiny_models.model(family, layers=2)  # of Gemma 3 one of each kind
    if adapters:
        model = tiny_models.adapted(model, targets=adapters)
    graph, state = nnx.split(model)
    last = tokens(2, P, G, 1), jnp.full((P, G, 1), SEEN + 2)

    @jax.jit
    def both(state):
        model = nnx.merge(graph, state)
        prefix, cache = pieces(model)
        hidden, new = model(*last, earlier=(prefix, cache))
        cache = with_room(cache, 3)
        truth = hidden, append(cache, new, 2), hidden
        split = unrolled.apart(prefix), unrolled.apart(cache)
        layers = unrolled.Unrolled(model)
        beside, _ = model(*last, earlier=split, layers=layers)
        layers = functools.partial(layers, at=2)
        hidden, new = model(*last, earlier=split, layers=layers)
        new = unrolled.stacked(append(split[1], new, 2, is_in=True))
        return truth, (hidden, new, beside)

    for a, b in zip(*map(jax.tree.leaves, both(state)), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_answers_in_bfloat16_are_of_the_model_that_trains():
    """Their log-probs are those of a pass over whole answers, but for rounding."""
    base = tiny_models.model("qwen2", dtype=jnp.bfloat16, layers=2)
    model = tiny_models.adapted(base, targets=SOME)
    assert unrolled.pays(model) or not unrolled.ROOM
    prompts = tokens(3, 4, 6)
    keys = row_keys(jax.random.key(0), 0, 4, 2)
    made = generate(
        model, prompts, jnp.ones_like(prompts), keys, max_tokens=8, eos_ids=(0,)
    )
    whole = jnp.concatenate(
        [jnp.broadcast_to(prompts[:, None], (4, 2, 6)), made.tokens], axis=-1
    )

    @nnx.jit
    def scored(model):
        hidden, _ = model(whole, jnp.broadcast_to(jnp.arange(14), whole.shape))
        logprobs = jax.nn.log_softmax(model.logits(hidden[:, :, 5:-1]))
        return jnp.take_along_axis(logprobs, made.tokens[..., None], axis=-1)[..., 0]

    gap = jnp.abs(scored(model) - made.logprobs) * made.mask
    assert gap.max() < 0.1 and gap.mean() < 0.02
    adapters = nnx.state(model, lora.Adapter)
    nnx.update(model, jax.tree.map(lambda x: 0.5 * x, adapters))
    gap = jnp.abs(scored(model) - made.logprobs) * made.mask
    assert gap.mean() > 0.05  # else the adapters would not have counted


def test_what_gains_nothing_or_has_no_room_stays_a_stack(monkeypatch):
    def made(family="qwen3", dtype=jnp.bfloat16):
        return tiny_models.model(family, dtype=dtype)

    assert unrolled.pays(tiny_models.adapted(made())) or not unrolled.ROOM
    for other in (made(dtype=jnp.float32), made("gemma4_text"), lora.quantize(made())):
        assert not unrolled.pays(other)
    numbers = sum(x.size for x in jax.tree.leaves(nnx.state(made().layers)))
    monkeypatch.setattr(unrolled, "ROOM", 2 * numbers - 1)
    assert not unrolled.pays(made())
