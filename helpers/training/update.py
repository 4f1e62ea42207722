"""The update of one step: a pure function of arrays, compiled once per batch shape.

Gradients of the pieces of a batch are added up into the gradient of the whole, the
optimizer turns it into a move, and the move is dropped if anything is not finite.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from helpers.training import optimizers


class Objective(Protocol):
    """What is minimized: a function of the model, a batch and the `frozen` modules.

    It returns a scalar loss, which is a mean, and scalar metrics. The metric "weight"
    is the number that the mean was divided by: tokens or sequences.
    """

    def __call__(
        self, model: nnx.Module, batch: dict, /, *frozen: Any, **settings: Any
    ) -> tuple[jax.Array, dict]:
        """The loss of a batch, and its metrics."""


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

    def update(params, opt_state, fixed, teachers, batch, rate):
        frozen = [
            nnx.merge(g, s) for g, s in zip(teacher_graphs, teachers, strict=True)
        ]

        def model(params):
            return nnx.merge(graph, params, fixed)

        move = functools.partial(_moved, transform, rate)

        def loss(params, piece):
            return counted(objective(model(params), piece, *frozen), piece)

        def gradient_of(params, piece):
            return *jax.grad(loss, has_aux=True)(params, piece), None

        def one_update(state, pieces):
            gradient, metrics, _ = whole_gradient(gradient_of, state[0], pieces)
            return move(state, gradient, metrics)

        state = params, opt_state
        minibatches = len(jax.tree.leaves(batch)[0])
        if isinstance(objective, OffPolicyObjective) and minibatches > 1:
            arguments = objective, model, frozen, move, state, batch
            state, metrics = off_policy_updates(*arguments)
        else:
            state, metrics = jax.lax.scan(one_update, state, batch)
        return *state, combine(metrics)

    return update


def _moved(transform, rate, state, gradient, metrics):
    """(parameters, optimizer state) after one update, and metrics with its norm.

    Where loss or gradient is not finite, they are those before it.
    """
    params, opt_state = state
    metrics["grad_norm"] = _norm(gradient)
    exact, inner = optimizers.whole(params, opt_state)
    moves, inner = transform.update(gradient, inner, exact, value=metrics["loss"])
    exact = jax.tree.map(lambda p, move: p + rate * move, exact, moves)
    new = optimizers.rounded(exact, inner, params)
    good = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
    state = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, state)
    return state, metrics


def whole_gradient(gradient_of, params, pieces):
    """Gradient and metrics of a batch from those of its pieces.

    Args:
      gradient_of: `gradient_of(params, piece) -> (gradient, metrics, extra)`; metrics
        as from `counted`, extra is any tree of arrays.
      params: what to differentiate by.
      pieces: dict of arrays (accumulate, rows, …).

    Returns:
      The gradient in float32, the metrics of the whole, and the extra of each piece,
      stacked.
    """

    def add(total, piece):
        gradient, metrics, extra = gradient_of(params, piece)
        weight = metrics["weight"]
        total = jax.tree.map(lambda t, g: t + weight * g, total, gradient)
        return total, (metrics, extra)

    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    total, (metrics, extra) = jax.lax.scan(add, zeros, pieces)
    weight = jnp.maximum(metrics["weight"].sum(), 1e-9)
    return jax.tree.map(lambda t: t / weight, total), combine(metrics), extra


def counted(result, piece):
    """A piece's (loss, metrics), with "loss" and "tokens" added to the metrics.

    Raises:
      ValueError: the objective reports no "weight".
    """
    value, metrics = result
    if "weight" not in metrics:
        raise ValueError(
            'The objective must report metrics["weight"]: the number of tokens'
            " or sequences its mean was divided by."
        )
    return value, metrics | {"loss": value, "tokens": count_tokens(piece)}


def combine(metrics: dict) -> dict:
    """Metrics of a whole from those of its pieces (leading axis): sums and means.

    "weight" and "tokens" are summed. The loss and metrics of pairs, "pair/…", are
    averaged by weight, which may count answers. All others are means over tokens.
    """

    def whole(name, x):
        if name in ("weight", "tokens"):
            return x.sum()
        by_weight = name == "loss" or name.startswith("pair/")
        counts = metrics["weight" if by_weight else "tokens"]
        return (x * counts).sum() / jnp.maximum(counts.sum(), 1e-9)

    return {name: whole(name, x) for name, x in metrics.items()}


def count_tokens(batch):
    """Tokens the loss looks at: those under the loss mask, or all if there is none."""
    if "loss_mask" in batch:
        return batch["loss_mask"].sum()
    return float(max(x.size for x in batch.values()))


class OffPolicyObjective(NamedTuple):
    """An objective in two halves, for batches that several updates learn from.

    From the second update of a batch on, GRPO and its relatives need the log-
    probabilities of the model before the first one. The sampler's are of the same
    policy, but computed in another order, which in bfloat16 moves an answer's ratio by
    more than GSPO's clip. So both come from the same code.

    The loss reads from the batch what the model scored before the first update, under
    the same names with "old_" in front. At the first update these are its scores.

    Args:
      scores: `scores(model, batch) -> {name: array}`, such as log-probabilities;
        gradients reach the model through these.
      loss: `loss(scores, batch, *frozen) -> (loss, metrics)`, as of any objective.
      weighs: whether it corrects for answers that an older policy sampled.
    """

    scores: Callable[[Any, dict], dict]
    loss: Callable[..., tuple[jax.Array, dict]]
    weighs: bool = False

    def __call__(self, model, batch, *frozen):
        """Loss and metrics; without old scores in the batch, before any update."""
        scores = self.scores(model, batch)
        before = old(jax.lax.stop_gradient(scores))
        return self.loss(scores, before | batch, *frozen)


def old(scores: dict) -> dict:
    """Scores under the names by which the loss reads them after an update."""
    return {f"old_{name}": x for name, x in scores.items()}


def off_policy_updates(objective, model, frozen, move, state, batch):
    """One update for each minibatch, with all their scores from before the first.

    The first turns of one loop only score minibatches 1, 2, …; its other turns learn
    from 0, 1, 2, …. Old and new scores then come from the same machine code and are
    equal to the last bit where nothing has moved. XLA would fuse and round two programs
    in two ways.

    Args:
      objective: an `OffPolicyObjective`.
      model: `model(params)` is the model with these parameters.
      frozen: modules that the objective's loss is given.
      move: `move(state, gradient, metrics) -> (state, metrics)`, one update.
      state: (params, …).
      batch: dict of arrays (minibatches, accumulate, rows, …).

    Returns:
      The state after all updates, and their metrics, stacked.
    """
    count = len(jax.tree.leaves(batch)[0])

    def turn(carry, now):
        state, before = carry
        number, learns = now

        def gradient_of(params, piece):
            switches = learns, number == 0
            return _look_or_learn(objective, model, frozen, params, piece, *switches)

        pieces = jax.tree.map(lambda x: x[number], batch | before)
        gradient, metrics, now = whole_gradient(gradient_of, state[0], pieces)
        before = {name: x.at[number].set(now[name]) for name, x in before.items()}
        moved, metrics = move(state, gradient, metrics)
        state = jax.tree.map(lambda new, x: jnp.where(learns, new, x), moved, state)
        return (state, before), metrics

    before = _no_scores(objective, model, state[0], batch)
    numbers = jnp.array([*range(1, count), *range(count)])
    learns = jnp.arange(len(numbers)) >= count - 1
    (state, _), metrics = jax.lax.scan(turn, (state, before), (numbers, learns))
    return state, jax.tree.map(lambda x: x[count - 1 :], metrics)


def _look_or_learn(objective, model, frozen, params, piece, learns, is_first):
    """(gradient, metrics, scores) of a piece; the first two are 0 unless it learns.

    Args:
      learns: scalar bool; otherwise only the scores are computed.
      is_first: scalar bool: nothing has moved, so the old scores are the new ones.
    """
    scores, backward = jax.vjp(
        lambda params: objective.scores(model(params), piece), params
    )
    now = old(scores)

    def learn():
        before = {name: jnp.where(is_first, x, piece[name]) for name, x in now.items()}

        def loss(scores):
            return counted(objective.loss(scores, piece | before, *frozen), piece)

        slope, metrics = jax.grad(loss, has_aux=True)(scores)
        return *backward(slope), metrics

    def look():
        shapes = jax.eval_shape(learn)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return *jax.lax.cond(learns, learn, look), now


def _no_scores(objective, model, params, batch):
    """Zeros in the shapes of the old scores of all minibatches and pieces."""

    def scores(params, piece):
        return old(objective.scores(model(params), piece))

    piece = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), batch)
    shapes = jax.eval_shape(scores, params, piece)
    cut = jax.tree.leaves(batch)[0].shape[:2]
    return {name: jnp.zeros(cut + x.shape, x.dtype) for name, x in shapes.items()}


def _norm(tree):
    """The length of all arrays of a tree as one vector; optax renamed its own."""
    return jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(tree)))
