"""FLOPs counted by hand, beside XLA's count and beside masks counted out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.model import lora
from helpers.model.attention import KV, visible
from helpers.model.config import ModelConfig
from helpers.model.gemma4_config import Gemma4Config
from helpers.model.ops import REMAT
from helpers.model.transformer import Transformer
from helpers.model.vision import Vision
from helpers.model.vision_config import VisionConfig
from helpers.tpu import useful_flops
from helpers.training import objectives

# One layer, so that no loop hides anything from XLA's count; so narrow that attention
# and adapters are a large part of it.
CONFIG = ModelConfig("qwen3", 192, 32, 1, 4, 2, 32, 48)
P, G, TP, TC, RANK = 2, 2, 32, 96, 16


def counted_by_xla(rank):
    """XLA's FLOPs of GRPO's forward pass, and of its gradient, nothing recomputed."""
    model = Transformer(CONFIG, nnx.Rngs(0))
    model = lora.add(model, rank) if rank else model
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
    programs = [jax.jit(f).lower(*given).compile() for f in (loss, jax.grad(loss))]
    return [program.cost_analysis()["flops"] for program in programs]


@pytest.mark.parametrize("rank", [0, RANK])
def test_products_of_a_gradient_are_those_xla_counts(rank):
    texts = [(P, 0, TP), (P * G, TP, TC)]
    forward = useful_flops.forward_flops(CONFIG, texts, P * G * TC, rank)
    # XLA computes scores that are masked, too.
    whole = 4 * CONFIG.heads * CONFIG.head_dim * P * (TP**2 + G * TC * (TP + TC))
    forward = forward._replace(attention=whole)
    update = useful_flops.update_flops(forward, trains_base=not rank)
    if rank:  # and not the gradient of q, k and v in the first layer by their input
        columns = (CONFIG.heads + 2 * CONFIG.kv_heads) * CONFIG.head_dim + 3 * rank
        update -= 2 * P * (TP + G * TC) * CONFIG.width * columns
    else:  # and logits once more for the gradient of their table
        update += forward.head
    # The rest is no product of matrices: exponentials, norms.
    found = counted_by_xla(rank)
    assert sum(forward) <= found[0] <= 1.06 * sum(forward)
    assert update <= found[1] <= 1.06 * update


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 30)))
def test_pairs_are_those_of_the_models_own_mask(before, own, window):
    positions = np.arange(before + own)[None, None]
    piece = KV(None, None, positions, np.ones_like(positions))
    mine = positions[..., before:]
    allowed, distance = visible(mine, np.ones_like(mine), piece)
    if window is not None:
        allowed = allowed & (distance < window)
    assert useful_flops.seen(before, own, window) == allowed.sum()


def test_local_layers_see_their_window_and_global_ones_all():
    shape = "gemma3_text", 192, 32, 6, 4, 2, 32, 48
    local = ModelConfig(*shape, window=8, pattern=6)
    texts = [(3, 5, 40)]
    found = useful_flops.forward_flops(local, texts, 0)
    pairs = 5 * useful_flops.seen(5, 40, 8) + useful_flops.seen(5, 40)
    assert found.attention == 3 * 4 * 4 * 32 * pairs and found.head == 0


def test_several_kinds_of_layer_are_refused_by_name():
    gemma4 = object.__new__(ModelConfig)
    object.__setattr__(gemma4, "gemma4", object.__new__(Gemma4Config))
    with pytest.raises(ValueError, match="Gemma 4"):
        useful_flops.forward_flops(gemma4, [], 0)


def test_flops_of_a_tower_are_those_xla_counts():
    """One layer and so few patches that their attention is one piece."""
    shape = VisionConfig(64, 1, 4, 160, 4, 32, 4, 9, 7, 8)
    tower = Vision(shape, 32, nnx.Rngs(0))
    graph, state = nnx.split(tower)

    def see(state, images):
        return nnx.merge(graph, state)(images, "float32", REMAT["none"])

    images = jnp.zeros((2, 32, 32, 3), jnp.uint8)
    compiled = jax.jit(see).lower(state, images).compile()
    counted = useful_flops.vision_flops(shape, len(images))
    assert compiled.cost_analysis()["flops"] == pytest.approx(counted, rel=0.15)
