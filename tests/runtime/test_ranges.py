"""Settings that make no sense are refused by their names, where they are given."""

import math

import jax.numpy as jnp
import pytest
from toy_training import Toy, squared_error

from helpers.generation.rollouts import Rollouts
from helpers.losses.distillation import ce_plus_kl
from helpers.runtime.ranges import require, require_count
from helpers.training import objectives
from helpers.training.optimizers import adamw, muon
from helpers.training.trainer import Trainer


@pytest.mark.parametrize("value", [-1e-3, math.nan, "1", None])
def test_a_number_outside_its_range_is_refused_by_name(value):
    with pytest.raises(ValueError, match="beta=.*at least 0 and at most 1"):
        require("beta", value, least=0, most=1)
    require("beta", 0, least=0, most=1)
    with pytest.raises(ValueError, match="patience=.*whole number from 1"):
        require_count("patience", value)


@pytest.mark.parametrize("value", [True, False, 0, 1.5])
def test_a_count_is_a_whole_number_from_one(value):
    with pytest.raises(ValueError, match="patience=.*whole number from 1"):
        require_count("patience", value)


@pytest.mark.parametrize("optimizer", [adamw, muon])
@pytest.mark.parametrize(
    "settings",
    [
        {"peak": -1e-3}, {"clip": 0.0}, {"clip": -1.0}, {"weight_decay": -0.1},
        {"b2": 1.0}, {"b2": -0.1},
    ],
)  # fmt: skip
def test_optimizers_refuse_what_would_climb_or_stand_still(optimizer, settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}="):
        optimizer(**({"peak": 1e-3} | settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": -0.1}, {"sampler_cap": 0}, {"sampler_cap": -1.0},
        {"constant_length": 0}, {"constant_length": -64}, {"clip": (-0.1, 0.28)},
    ],
)  # fmt: skip
def test_objectives_refuse_numbers_that_would_turn_the_loss_around(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}="):
        objectives.policy_gradient(**settings)
    with pytest.raises(ValueError, match="beta="):
        objectives.dpo(beta=0)


@pytest.mark.parametrize(
    "settings", [{"alpha": 2.0}, {"alpha": -1.0}, {"temperature": 0.0}]
)
def test_a_teacher_s_share_is_a_share(settings):
    logprobs, labels = jnp.log(jnp.full((1, 2), 0.5)), jnp.array([0])
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}="):
        ce_plus_kl(logprobs, logprobs, labels, **settings)


@pytest.mark.parametrize(
    "settings",
    [{"evaluate_every": -2}, {"evaluate_every": 1.5}, {"patience": 0}],
)
def test_steps_are_counted_in_whole_numbers(settings):
    (name,) = settings
    evaluate = len if name == "evaluate_every" else None
    with pytest.raises(ValueError, match=f"{name}="):
        Trainer(Toy(), squared_error, adamw(1e-2), evaluate=evaluate, **settings)


def test_rollouts_refuse_a_patience_of_none():
    with pytest.raises(ValueError, match="patience=0"):
        Rollouts(None, None, None, None, group=2, max_tokens=4, patience=0)
