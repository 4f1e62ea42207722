"""Half the rows for the last answers: the same answers, from the same keys."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import adapted, group_batch, model, needs_bfloat16, random_groups

from helpers.generation.sampling import Completions, generate, row_keys
from helpers.model import lora
from helpers.model.attention import KV
from helpers.model.fast import batch_compaction

PROMPTS, _ = random_groups(P=4, seed=4)
BUDGET = 9


def kv(seed, P, g, stacked):
    """Numbers by kind of layer, two layers of one and one of the other; or by layer."""
    keys = np.random.default_rng(seed).integers(0, 99, (3, P, g, 1, 2, BUDGET))
    index = jnp.asarray(keys[0, :, :, 0, 0] + 1)
    kinds = {"full": jnp.asarray(keys[:2]), "local": jnp.asarray(keys[2:])}
    both = kinds if stacked else list(map(jnp.asarray, keys))
    return KV(both, jax.tree.map(lambda x: x.swapaxes(-1, -2) + 1, both), index, index)


def summed(kv, axis):
    """One number a row, in which all that a row has counts, by its place."""
    total = 0
    for x in jax.tree.leaves((kv.keys, kv.values)):
        x = x if axis else x[None]
        weigh = 1 + jnp.arange(x[0, 0, 0].size).reshape(x.shape[3:])
        total += (x * weigh).sum(axis=(0, 3, 4, 5))
    columns = jnp.arange(BUDGET)
    return total + ((kv.positions + 3 * kv.segments) * columns).sum(axis=-1)


class Summing(NamedTuple):
    """Chooses a token from numbers instead of logits."""

    keys_PG: jax.Array

    def __call__(self, seen_PG):
        return (seen_PG * 31 + self.keys_PG) % 23

    def of_rows(self, rows):
        return Summing(self.keys_PG[rows])


@functools.partial(jax.jit, static_argnames=("axis",))
def made_up(prefix, cache, keys_PG, length_PG, most, axis):
    """By one loop and by two: a next token is a sum of all its row has, modulo 23."""

    def loop(going_on, prefix, length_PG, choose, carry):
        def going(carry):
            return (carry[0] < BUDGET) & going_on(carry[2].ended)

        def one_token(carry):
            t, token_PG, out, cache = carry
            seen = summed(prefix, axis) + summed(cache, axis) + length_PG + token_PG
            real, token_PG = ~out.ended, choose(seen * (t + 1))
            put = [x.at[..., t].set(jnp.where(real, token_PG, 0)) for x in out[:3]]
            out = Completions(*put, out.ended | (token_PG < most))
            index = cache.positions.at[..., t].set(token_PG)
            return t + 1, token_PG, out, cache._replace(positions=index)

        return jax.lax.while_loop(going, one_token, carry)

    empty = jnp.zeros((*keys_PG.shape, BUDGET), jnp.int32)
    out = Completions(empty, empty, empty, keys_PG < 0)
    begun = prefix, length_PG, Summing(keys_PG), (0, keys_PG % 5, out, cache)
    one = loop(lambda ended_PG: ~ended_PG.all(), *begun)[2]
    return one, batch_compaction.generate_compacted(loop, *begun, axis=axis)


SHAPES = [(5, 1), (3, 4)]


@settings(deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from([0, 1]), st.integers(0, 999), st.data())
def test_every_answer_finds_what_is_its_own(shape, axis, seed, data):
    """Prompt, cache, length, key and last token, whichever answers have ended when."""
    P, G = shape
    rng = np.random.default_rng(seed)
    rows = kv(seed, P, 1, axis), kv(seed + 1, P, G, axis)
    numbers = [jnp.asarray(rng.integers(0, 99, shape), jnp.int32) for _ in range(2)]
    most = data.draw(st.integers(0, 23))
    one_loop, two_loops = made_up(*rows, *numbers, most, axis=axis)
    for one, two in zip(one_loop, two_loops, strict=True):
        np.testing.assert_array_equal(one, two)


MODELS = {
    "adapters": (lambda: adapted(model("qwen2")), 4, {"top_p": 0.9}),
    "int8, greedy": (lambda: lora.quantize(model(seed=1)), 1, {"temperature": 0}),
    "layers apart": (lambda: model(dtype=jnp.bfloat16), 4, {}),
}


SLOW = {"Gemma 4": (lambda: model("gemma4_text"), 4, {})}  # keys and values by kind


@pytest.mark.parametrize(
    "name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_answers_are_those_of_one_loop(name, monkeypatch):
    """Token for token; log-probs may round otherwise, as among other neighbours."""
    if name == "layers apart":
        needs_bfloat16()
    make, group, how = (MODELS | SLOW)[name]
    batch = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), group)
    sizes, made = [], make()
    kept = batch_compaction.moved
    monkeypatch.setattr(
        batch_compaction, "moved", lambda *rows: sizes.append(rows) or kept(*rows)
    )
    found = []
    for work in 1e18, 0:
        monkeypatch.setattr(batch_compaction, "WORK", work)
        rows = batch["prompt"], batch["prompt_mask"], keys
        limits = {"max_tokens": 12, "eos_ids": tuple(range(7))}
        found.append(jax.device_get(generate(made, *rows, **limits, **how)))
        assert len(sizes) == (0 if work else 2)
    one, two = found
    for name in ("tokens", "mask", "ended"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-5)
    lengths = one.mask.sum(axis=-1)
    assert batch_compaction.fits(lengths < lengths.max()), "nobody was left to move"


def test_a_second_loop_is_compiled_where_it_is_worth_it(monkeypatch):
    """SmolLM2's evaluation and shortest rollouts, on a CPU; not the tiny models'."""
    smol, tiny = (
        {"all": jax.ShapeDtypeStruct((n,), jnp.float32)} for n in (135e6, 5e5)
    )
    assert batch_compaction.pays(smol, (64, 1), 64) and batch_compaction.pays(
        smol, (8, 8), 32
    )
    assert not batch_compaction.pays(tiny, (64, 8), 64)
    assert not batch_compaction.pays(smol, (1, 1), 4096) and not batch_compaction.pays(
        smol, (64, 3), 64
    )
    with monkeypatch.context() as several:
        several.setattr(batch_compaction, "mesh_in_use", lambda: "a mesh")
        assert not batch_compaction.pays(smol, (64, 1), 64)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert not batch_compaction.pays(smol, (64, 1), 64)
