"""The old policy is the trainer's own before the first update, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from on_policy import assert_exactly_on_policy, random_answers, step
from tiny_models import needs_bfloat16
from toy_training import Fixed, Rows, Toy, weights

from helpers.training import objectives
from helpers.training.optimizers import Optimizer, constant
from helpers.training.trainer import Trainer
from helpers.training.update import OffPolicyObjective


def test_gspo_gives_every_answer_its_gradient_before_anything_has_moved():
    """The sampler's log-probs are off by more than the clip: a ratio to them would clip
    tokens. Without adapters: `on_policy.main`."""
    needs_bfloat16()
    settings = {"minibatches": 4, "accumulate": 2, "rank": 8}
    row = step(random_answers(T=48), objectives.gspo(), **settings)
    assert row["logprob_gap"] > 1e-3
    assert_exactly_on_policy(row)


def outputs(model, batch):
    return {"sum": model(batch["tokens"]).sum(axis=-1)}


def error_and_drift(scores, batch):
    """The squared error, and how far the outputs are from what they were at first."""
    mask = batch["loss_mask"]
    error = jnp.square(scores["sum"] - batch["target"])
    drift = jnp.square(scores["sum"] - batch["old_sum"])
    weight = mask.sum()
    means = [(x * mask).sum() / weight for x in (error, drift)]
    return means[0] + 3 * means[1], {"weight": weight, "drift": means[1]}


@pytest.mark.parametrize("minibatches, accumulate", [(1, 2), (4, 2)])
def test_old_scores_are_those_of_the_model_before_the_first_update(
    minibatches, accumulate
):
    """Against a plain loop: all outputs first, then update after update."""
    batch, rate = next(Rows(batch=8)), 0.01
    model = Toy()
    (row,) = Trainer(
        model,
        OffPolicyObjective(outputs, error_and_drift),
        Optimizer(optax.scale(-1.0), constant(rate)),
        minibatches=minibatches,
        accumulate=accumulate,
        log=False,
    ).fit(Fixed(batch), 1)

    arrays = {name: x for name, x in batch.items() if name != "rows"}
    graph, params = nnx.split(Toy())
    arrays["old_sum"] = outputs(nnx.merge(graph, params), arrays)["sum"]

    def loss(params, rows):
        return error_and_drift(outputs(nnx.merge(graph, params), rows), rows)

    slope_of, drifts = jax.jit(jax.grad(loss, has_aux=True)), []
    for rows in np.split(np.arange(8), minibatches):
        part = {name: x[rows] for name, x in arrays.items()}
        slope, metrics = slope_of(params, part)
        params = jax.tree.map(lambda p, g: p - rate * g, params, slope)
        drifts.append(float(metrics["drift"]) * part["loss_mask"].sum())
    expected = nnx.merge(graph, params)
    for name, x in weights(model).items():
        np.testing.assert_allclose(x, weights(expected)[name], rtol=1e-5, atol=1e-6)
    drift = sum(drifts) / batch["loss_mask"].sum()
    np.testing.assert_allclose(row["drift"], drift, rtol=1e-4)
    assert (row["drift"] == 0) == (minibatches == 1)


def test_rollouts_of_another_model_are_refused_before_anything_is_computed():
    """As where adapters are added after the rollouts were made."""
    model, sampler = Toy(), Toy()
    batches = Rows()
    batches.model = sampler

    def sum_of(model, batch):
        return {"logprobs": model(batch["tokens"]).sum(-1)}

    def loss(scores, batch):
        return scores["logprobs"].mean(), {"weight": jnp.ones(())}

    def fit(objective):
        Trainer(model, objective, optax.sgd(0.1), log=False).fit(batches, 1)

    with pytest.raises(ValueError, match="sampled from another model"):
        fit(OffPolicyObjective(sum_of, loss))
    assert batches.count == 0
    fit(lambda model, batch: loss(sum_of(model, batch), batch))  # its own business
    batches.model = model
    fit(OffPolicyObjective(sum_of, loss))
