"""Prompts computed once: the last token's hidden state, and no more work than it asks.

The truth is the same model run on all tokens of the prompt.
"""

import functools

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
import traced
from flax import nnx

from helpers.model import lora, scoring

LENGTHS = np.array([9, 1, 6])
PROMPTS = tiny_models.texts(3, 9, 5)
MASK = (np.arange(9) < LENGTHS[:, None]).astype(np.int32)
PROMPTS = np.where(MASK > 0, PROMPTS, 5).astype(
    np.int32
)  # what padding says is no matter


def whole(model, prompt_PT, mask_PT):
    """`scoring.prefill`, from a pass in which every token goes through every layer."""
    prompts, mask = prompt_PT[:, None], mask_PT[:, None]
    positions = np.broadcast_to(np.arange(prompts.shape[2]), prompts.shape)
    hidden, kv = model(prompts, positions, mask)
    return hidden[np.arange(len(mask)), 0, mask_PT.sum(axis=1) - 1], kv


@functools.partial(jax.jit, static_argnums=(0, 3))
def run(graph, state, weight_PD, way):
    """What a way to compute prompts finds, and the gradient of a number made of it."""

    def total(state):
        last_PD, kv = way(nnx.merge(graph, state), PROMPTS, MASK)
        # Padding's keys and values are of no meaning.
        real = [jnp.sin(x) for x in jax.tree.leaves((kv.keys, kv.values))]
        at = [MASK[:, None, None, None], MASK[:, None, None, :, None]]
        half = len(real) // 2
        of_kv = sum((x * at[i >= half]).sum() for i, x in enumerate(real))
        return (last_PD * weight_PD).sum() + of_kv, (last_PD, kv)

    (_, values), slopes = jax.value_and_grad(total, has_aux=True, allow_int=True)(state)
    return values, slopes


def assert_last_tokens_are_the_same(shape, seed, stored=None):
    """Hidden states, keys and values, and the gradient."""
    model = tiny_models.of_config(gemma4_shapes.config(**shape), seed)
    if stored:
        model = tiny_models.adapted(lora.quantize(model, stored))
    weight_PD = np.random.default_rng(seed).normal(size=(3, model.config.width))
    graph, state = nnx.split(model)
    assert_close(
        *(
            run(graph, state, weight_PD.astype(np.float32), way)
            for way in (scoring.prefill, whole)
        )
    )


def assert_close(ours, theirs):
    for mine, other in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        if jnp.issubdtype(mine.dtype, jnp.floating):
            # Up to nine layers with four norms each make more of a rounding.
            size = max(1.0, float(np.abs(other).max()))
            np.testing.assert_allclose(mine / size, other / size, atol=3e-4)


def test_the_last_token_becomes_what_it_does_beside_all_others():
    """Its state, keys and values; below, with the gradient."""
    few = gemma4_shapes.E2B | {"kinds": "ff", "sharing": 1}
    model = tiny_models.of_config(gemma4_shapes.config(**few))
    ours, theirs = (
        nnx.jit(functools.partial(way, prompt_PT=PROMPTS, mask_PT=MASK))(model)
        for way in (scoring.prefill, whole)
    )
    assert_close(ours, theirs)


# Between them every switch of Gemma 4's is on.
SHAPES = [
    (gemma4_shapes.SMALL | {"kinds": "lff", "sharing": 1}, "int8"),
    (gemma4_shapes.LIKE_31B | {"kinds": "llf", "tied": False}, None),
]


@pytest.mark.slow
@pytest.mark.parametrize("shape, stored", SHAPES)
def test_it_does_with_any_switches_of_gemma4_and_on_int8_with_adapters(shape, stored):
    assert_last_tokens_are_the_same(shape, 1, stored)


def test_layers_behind_the_last_keys_compute_one_token_of_a_prompt(tokens=40):
    """Counted by hand: what a token takes in the layers of E2B's kinds that share."""
    model = tiny_models.of_config(gemma4_shapes.config(**gemma4_shapes.E2B))
    graph, state = nnx.split(model)
    shape = jax.ShapeDtypeStruct((3, tokens), jnp.int32)

    def counted(way):
        program = jax.make_jaxpr(
            lambda state, prompts, mask: way(nnx.merge(graph, state), prompts, mask)
        )
        return traced.matmul_flops(program(state, shape, shape)) // 2

    def all_of_them(model, prompts, mask):
        positions = jnp.broadcast_to(jnp.arange(tokens), (3, 1, tokens))
        return model(prompts[:, None], positions, mask[:, None])

    c = model.config
    spared = 0
    for layer in range(3, 9):  # llfllf share: two local layers, then a full one, twice
        head = 10 if layer % 3 == 2 else 6
        a_token = 2 * c.width * c.heads * head + 3 * c.width * 2 * c.ff
        a_token += 2 * c.width * 8  # its vector of the token: gated, and added
        a_token += 2 * c.heads * head * tokens  # scores of all keys, and their values
        spared += 3 * (tokens - 1) * a_token
    assert counted(all_of_them) - counted(scoring.prefill) == spared
