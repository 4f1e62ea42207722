"""Tokens that nobody asks for are left out: values, gradients, and what is computed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.model import logprobs, lora, scoring
from helpers.training import objectives

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


def test_a_table_in_bfloat16_is_scored_as_beside_all_tokens():
    """Frozen weights are, where the processor multiplies it."""
    tiny_models.needs_bfloat16()
    hidden, table, targets, weights = drawn(TOKENS)
    mask = jnp.arange(TOKENS) % 3 == 0
    ours, theirs = found_with_gradient(
        5, 0, mask, hidden, table.astype(jnp.bfloat16), targets, weights
    )
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4)


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


def rows_batch():
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 30, (2, 12)).astype(np.int32)
    positions = np.tile(np.arange(12, dtype=np.int32), (2, 1))
    mask = np.zeros((2, 12), np.float32)
    mask[0, 5:9] = 1
    return {
        "tokens": tokens,
        "segment_ids": np.ones_like(tokens),
        "positions": positions,
        "loss_mask": mask,
    }


def group_batch():
    rng = np.random.default_rng(3)
    mask = (np.arange(6) < rng.integers(1, 7, (2, 3, 1))).astype(np.float32)
    mask[1, 2] = 0  # an answer that was cut off
    return {
        "prompt": rng.integers(1, 30, (2, 5)).astype(np.int32),
        "prompt_mask": np.ones((2, 5), np.int32),
        "completion": rng.integers(1, 30, (2, 3, 6)).astype(np.int32),
        "loss_mask": mask,
        "logprobs": np.full((2, 3, 6), -3.0, np.float32),
        "old_logprobs": np.full((2, 3, 6), -3.1, np.float32) * mask,
        "advantages": rng.normal(size=(2, 3)).astype(np.float32),
    }


def pair_batch():
    batch = {name: x[:, :2] for name, x in group_batch().items() if x.ndim > 2}
    return batch | {k: v for k, v in group_batch().items() if k.startswith("prompt")}


CASES = {
    "sft": (objectives.sft(chunk=7), rows_batch, False),
    "grpo": (
        objectives.policy_gradient(beta=0.1, sampler_cap=2, chunk=7),
        group_batch,
        True,
    ),
    "gspo": (objectives.gspo(chunk=7), group_batch, False),
    "dpo": (objectives.dpo(imitate=0.3, chunk=7), pair_batch, True),
}


@pytest.mark.parametrize(
    ("name", "adapters"), [*((name, True) for name in CASES), ("sft", False)]
)
def test_losses_metrics_and_gradients_are_the_same(name, adapters, monkeypatch):
    objective, batch, refers = CASES[name]
    model = tiny_models.model("llama", vocab=31)
    reference = (tiny_models.model("llama", vocab=31, seed=1),) if refers else ()
    if adapters:
        model = tiny_models.adapted(model)
    graph, params, rest = nnx.split(model, lora.trainable(model), ...)

    def loss(params):
        return objective(nnx.merge(graph, params, rest), batch(), *reference)

    def found():
        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    plain = found()
    monkeypatch.setattr(scoring, "masking_pays", lambda hidden, table: True)
    monkeypatch.setattr(scoring, "MASKED_CHUNK", 4)
    jax.clear_caches()
    ours = found()
    for (path, x), y in zip(
        jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(plain), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=3e-5, err_msg=jax.tree_util.keystr(path))
