"""Rooflines and useful FLOPs: counted by hand, by brute force, in traced programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from traced import matmul_flops

from helpers.model import lora
from helpers.model.attention import KV, visible
from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.ops import REMAT
from helpers.model.transformer import Transformer
from helpers.model.vision import Gemma4Vision
from helpers.model.vision_config import Gemma4VisionConfig
from helpers.tpu import roofline
from helpers.tpu.roofline import Machine, Texts
from helpers.training import objectives


def test_flops_and_bytes_are_those_of_the_triple_loop():
    B, D, F = 3, 5, 2
    flops, touched = 0, set()
    for b in range(B):
        for f in range(F):
            touched.add(("out", b, f))
            for d in range(D):
                flops += 2
                touched |= {("x", b, d), ("w", d, f)}
    assert roofline.matmul(B, D, F, size=4) == (flops, 4 * len(touched))


def test_the_roof_is_the_lower_of_the_two_limits():
    machine = Machine("toy", flops=100.0, bandwidth=5.0)
    assert machine.ridge == 20
    assert [machine.reach(x) for x in (1, 19, 20, 21, 1000)] == [5, 95, 100, 100, 100]
    assert roofline.published("v5e").ridge == pytest.approx(197e12 / 819e9)


# One layer, so that no loop hides anything from XLA's count; so narrow that attention
# and adapters are a large part of it.
CONFIG = ModelConfig("qwen3", 192, 32, 1, 4, 2, 32, 48)
P, G, TP, TC, RANK = 2, 2, 32, 96, 16


def counted(rank):
    """FLOPs of the matmuls of GRPO's forward pass, and XLA's count of its gradient."""

    def made():
        model = Transformer(CONFIG, nnx.Rngs(0))
        return lora.add(model, rank) if rank else model

    model = nnx.eval_shape(made)  # numbers are not needed
    model.remat = "none"
    graph, trained, rest = nnx.split(model, lora.trainable(model), ...)
    batch = {
        "prompt": jnp.zeros((P, TP), jnp.int32),
        "prompt_mask": jnp.ones((P, TP), jnp.int32),
        "completion": jnp.zeros((P, G, TC), jnp.int32),
        "loss_mask": jnp.ones((P, G, TC)),
        "old_logprobs": jnp.zeros((P, G, TC)),
        "logprobs": jnp.zeros((P, G, TC)),
        "advantages": jnp.ones((P, G)),
    }
    objective = objectives.policy_gradient()

    def loss(trained, rest, batch):
        model = nnx.merge(graph, trained, rest)
        return objective.loss(objective.scores(model, batch), batch)[0]

    given = trained, rest, batch
    gradient = jax.jit(jax.grad(loss)).lower(*given).compile()
    return matmul_flops(jax.make_jaxpr(loss)(*given)), gradient.cost_analysis()["flops"]


@pytest.mark.parametrize("rank", [0, RANK])
def test_products_are_those_of_the_traced_program_and_its_gradient(rank):
    texts = [Texts(P, 0, TP), Texts(P * G, TP, TC)]
    forward = roofline.forward_flops(CONFIG, texts, P * G * TC, rank)
    # XLA computes scores that are masked, too.
    whole = 4 * CONFIG.heads * CONFIG.head_dim * P * (TP**2 + G * TC * (TP + TC))
    forward = forward._replace(attention=whole)
    update = roofline.update_flops(forward, trains_base=not rank)
    if rank:  # and not the gradient of q, k and v in the first layer by their input
        columns = (CONFIG.heads + 2 * CONFIG.kv_heads) * CONFIG.head_dim + 3 * rank
        update -= 2 * P * (TP + G * TC) * CONFIG.width * columns
    else:  # and logits once more for the gradient of their table
        update += forward.head
    traced, xla = counted(rank)
    targets = 2 * P * G * TC * CONFIG.width  # their logits, taken once more by a dot
    assert traced == sum(forward) + targets
    # XLA counts norms and exponentials too, and counts them differently by version.
    assert update <= xla <= 1.12 * update


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 30)))
def test_pairs_are_those_of_the_models_mask(before, tokens, window):
    positions = np.arange(before + tokens)[None, None]
    piece = KV(None, None, positions, np.ones_like(positions))
    mine = positions[..., before:]
    allowed, distance = visible(mine, np.ones_like(mine), piece)
    if window is not None:
        allowed = allowed & (distance < window)
    assert roofline.visible_pairs(before, tokens, window) == allowed.sum()


def test_flops_of_gemma_4_are_those_of_the_traced_program():
    """A layer of each kind, and one that shares: all loops have one round."""
    gemma4 = Gemma4Config(
        ("local", "full") * 2, 64, 8, True, 2, double_wide=True, per_layer=48
    )
    config = ModelConfig(
        "gemma4_text", 512, 128, 4, 8, 8, 32, 128, window=8, gemma4=gemma4
    )
    model = nnx.eval_shape(lambda: lora.add(Transformer(config, nnx.Rngs(0)), RANK))
    T = 32
    graph, state = nnx.split(model)

    def forward(state, tokens, positions):
        model = nnx.merge(graph, state)
        return model.logits(model(tokens, positions)[0])

    tokens = jnp.zeros((2, 1, T), jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(T), tokens.shape)
    program = jax.make_jaxpr(forward)(state, tokens, positions)
    forward = roofline.forward_flops(config, [Texts(2, 0, T)], 2 * T, RANK)
    # The program computes scores that are masked, too: of 32 and of 64 wide heads.
    forward = forward._replace(attention=4 * 2 * T**2 * 8 * 2 * (32 + 64))
    assert matmul_flops(program) == sum(forward)


def test_flops_of_gemma_4s_tower_are_those_of_the_traced_program():
    shape = Gemma4VisionConfig(
        64, 1, 4, 2, 16, 160, 4, 2, 64, 9, 7, 8, budget=16, clipped=True
    )
    tower = nnx.eval_shape(lambda: Gemma4Vision(shape, 32, nnx.Rngs(0)))
    graph, state = nnx.split(tower)

    def see(state, images):
        return nnx.merge(graph, state)(images, "float32", REMAT["none"])

    images = jnp.zeros((2, 1, *shape.shape), jnp.uint8)
    program = jax.make_jaxpr(see)(state, images)
    counted = roofline.vision_flops(shape, len(images))
    assert matmul_flops(program) == pytest.approx(counted, rel=0.15)
