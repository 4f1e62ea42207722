"""The programs compiled for TPUs are those of trainer and sampler."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from traced import equations

from helpers.generation import next_token, sampling
from helpers.model import lora
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.model.vision_config import VisionConfig
from helpers.runtime.sharding import make_mesh, place_batch
from helpers.tpu import programs
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer

CONFIG = ModelConfig("qwen3", 64, 32, 2, 2, 1, 16, 48)
ADAMW = optimizers.adamw(1e-3)
SIZES = 4, 2, 8, 8  # prompts, group, prompt tokens, answer tokens


def one_device():
    return make_mesh(jax.devices()[:1])


def traced_by_the_trainer(
    model, objective, batch, *, frozen=(), wrt=nnx.Param, minibatches=1
):
    """The trainer's update for a batch of these shapes, traced."""
    trainer = Trainer(
        model, objective, ADAMW, frozen=frozen, mesh=one_device(), wrt=wrt, log=False
    )
    learner = trainer.state
    learner.place()
    learner.compile(objective, ADAMW.transform)
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in batch.items()}
    pieces = place_batch(arrays, trainer.mesh, minibatches, 2)
    state = learner.params, learner.opt_state, learner.fixed, learner.teachers
    return learner.update.plain.trace(*state, pieces, 0.1)


def counts(traced):
    """How often a traced program has each operation, with the shapes it works on."""
    total = collections.Counter()
    for equation, times in equations(traced.jaxpr):
        shapes = [(x.aval.shape, str(x.aval.dtype)) for x in equation.outvars]
        total[equation.primitive.name, *shapes] += times
    return total


@pytest.mark.parametrize("rank, minibatches", [(0, 1), (4, 2)])
def test_an_update_is_the_very_one_that_the_trainer_compiles(rank, minibatches):
    dtype = jnp.bfloat16 if rank else jnp.float32
    real = Transformer(CONFIG, nnx.Rngs(0), dtype, activations=jnp.bfloat16)
    real = lora.add(real, rank) if rank else real
    batch = programs.group_batch(*SIZES)
    objective = objectives.policy_gradient()
    wrt = lora.Adapter if rank else nnx.Param
    expected = traced_by_the_trainer(
        real, objective, batch, wrt=wrt, minibatches=minibatches
    )
    model = programs.abstract_model(CONFIG, rank=rank)
    split = {"minibatches": minibatches, "accumulate": 2}
    function, arguments = programs.update(
        model, objective, ADAMW, batch, one_device(), **split
    )
    compiled = counts(function.trace(*arguments))
    assert compiled.total() > 100
    assert compiled == counts(expected)


def test_a_rollout_is_the_very_one_that_the_sampler_compiles():
    real = Transformer(CONFIG, nnx.Rngs(0), jnp.float32, activations=jnp.bfloat16)
    P, G, Tp, Tc = SIZES
    graph, state = nnx.split(real)
    keys = sampling.row_keys(jax.random.key(0), 0, P, G)
    prompt = jnp.ones((P, Tp), jnp.int32)
    limits = sampling.Limits(Tc, (1,))
    expected = sampling._generate.plain.trace(
        graph, state, [prompt, prompt, keys], next_token.tempering(1.0), limits
    )
    function, arguments = programs.rollout(
        programs.abstract_model(CONFIG), *SIZES, one_device()
    )
    assert counts(function.trace(*arguments)) == counts(expected)


def test_a_batch_with_pictures_has_one_for_every_prompt():
    shape = VisionConfig(64, 1, 4, 160, 4, 32, 4, 9, 7, 8)
    group = programs.group_batch(*SIZES, shape)
    assert group.pop("images") == ((SIZES[0], 1, 32, 32, 3), jnp.uint8)
    assert group == programs.group_batch(*SIZES)
    assert "images" in programs.packed_batch(4, 8, shape)


def test_moments_are_two_float32_numbers_for_each_trained_one():
    full = programs.moments_gb(programs.abstract_model(CONFIG), ADAMW, one_device())
    trained = sum(
        x.size
        for x in jax.tree.leaves(nnx.state(programs.abstract_model(CONFIG), nnx.Param))
    )
    assert full * 2**30 == pytest.approx(8 * trained, rel=0.01)
    adapters = programs.abstract_model(CONFIG, rank=2)
    assert programs.moments_gb(adapters, ADAMW, one_device()) < full / 3
