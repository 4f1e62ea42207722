"""The update of one step: a pure function of arrays, compiled once per batch shape.

Gradients of the pieces of a batch are added up into the gradient of the whole, the
optimizer turns it into a move, and the move is dropped if anything is not finite.
"""

import functools

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from helpers.training import rounding
from helpers.training.contracts import Objective
from helpers.training.gradients import combine, counted, whole_gradient
from helpers.training.off_policy import OffPolicyObjective, off_policy_updates
from helpers.training.optimizers import injected_rate


def build_update(objective: Objective, transform, graph, teacher_graphs):
    """The pure function of one step, to be compiled.

    Args:
      objective: see `helpers.training.objectives`.
      transform: an Optax transformation; it is also given the loss, as `value`.
      graph: the model's graph definition, of its parameters and what is fixed.
      teacher_graphs: those of the frozen modules.

    Returns:
      `update(params, opt_state, fixed, teachers, batch, rate)`, where the leaves of
      `batch` are (minibatches, accumulate, rows, …) and `rate` is a scalar; it
      returns the new params and opt_state, and scalar metrics.
    """
    transform = optax.with_extra_args_support(transform)
    off_policy = objective if isinstance(objective, OffPolicyObjective) else None
    at_first: Objective = off_policy.at_first if off_policy else objective

    def update(params, opt_state, fixed, teachers, batch, rate):
        frozen = [
            nnx.merge(g, s) for g, s in zip(teacher_graphs, teachers, strict=True)
        ]

        def model(params):
            return nnx.merge(graph, params, fixed)

        move = functools.partial(_moved, transform, rate)

        def loss(params, piece):
            return counted(at_first(model(params), piece, *frozen), piece)

        def gradient_of(params, piece):
            return *jax.grad(loss, has_aux=True)(params, piece), None

        def one_update(state, pieces):
            gradient, metrics, _ = whole_gradient(gradient_of, state[0], pieces)
            return move(state, gradient, metrics)

        state = params, opt_state
        minibatches = len(jax.tree.leaves(batch)[0])
        if off_policy and minibatches > 1:
            state, metrics = off_policy_updates(
                off_policy, model, frozen, move, state, batch
            )
        else:
            state, metrics = jax.lax.scan(one_update, state, batch)
        metrics = combine(metrics)
        if (inside := injected_rate(state[1])) is not None:
            metrics["learning_rate"] = rate * inside
        return *state, metrics

    return update


def _moved(transform, rate, state, gradient, metrics):
    """(parameters, optimizer state) after one update, and metrics with its norm.

    Where loss or gradient is not finite, they are those before it.
    """
    params, opt_state = state
    metrics["grad_norm"] = optax.global_norm(gradient)
    exact, inner = rounding.whole(params, opt_state)
    moves, inner = transform.update(gradient, inner, exact, value=metrics["loss"])
    exact = jax.tree.map(lambda p, move: p + rate * move, exact, moves)
    new = rounding.rounded(exact, inner, params)
    good = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
    state = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, state)
    return state, metrics
