"""Objectives that compare the model with itself before the first of several updates.

From the second update of a batch on, the model is no longer the one before it: GRPO and
its relatives then need its *old* log-probabilities. They must come from where the new
ones come from. The sampler's are of the same policy, computed in another order, and in
bfloat16 that moves an answer's ratio by more than GSPO's clip.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from helpers.training.gradients import counted, whole_gradient


class OffPolicyObjective(NamedTuple):
    """An objective in two halves, for batches that several updates learn from.

    The loss finds in the batch what the model scored before the first update, under
    the same names with "old_" in front. At the first update those are the scores.

    Args:
      scores: `scores(model, batch) -> {name: array}`: what the model says of the batch;
        gradients reach the model through these.
      loss: `loss(scores, batch, *frozen) -> (loss, metrics)`, as of any objective.
      weighs: whether it makes up for answers that an older policy sampled.
    """

    scores: Callable[[Any, dict], dict]
    loss: Callable[..., tuple[jax.Array, dict]]
    weighs: bool = False

    def __call__(self, model, batch, *frozen):
        """Loss and metrics of a batch that has its old scores.

        Raises:
          ValueError: it has not.
        """
        scores = self.scores(model, batch)
        if not old(scores).keys() & batch.keys():
            raise ValueError(
                f"The batch has none of {', '.join(sorted(old(scores)))}. The Trainer"
                " adds them to the batches of an OffPolicyObjective. To change what one"
                " computes, pass OffPolicyObjective(scores, loss) with changed halves;"
                " to look at one batch before any update, call its at_first."
            )
        return self.loss(scores, batch, *frozen)

    def at_first(self, model, batch, *frozen):
        """Loss and metrics before the first update, which needs no old scores."""
        scores = self.scores(model, batch)
        before = old(jax.lax.stop_gradient(scores))
        return self.loss(scores, batch | before, *frozen)


def old(scores: dict) -> dict:
    """Scores under the names by which the loss finds them after an update."""
    return {f"old_{name}": x for name, x in scores.items()}


def off_policy_updates(objective, model, frozen, move, state, batch):
    """One update for each minibatch, with all their scores from before the first.

    A loop whose first turns only look at minibatches 1, 2, … and keep their scores, and
    whose other turns learn from 0, 1, 2, …. Both are turns of one loop, so that old and
    new scores come out of the very same machine code: where nothing has moved they are
    equal to the last bit. Of two programs, XLA would fuse and round each in its way.

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
      learns: scalar bool; else only the scores are computed.
      is_first: scalar bool: nothing has moved, so that the old scores are these.
    """
    scores, backward = jax.vjp(
        lambda params: objective.scores(model(params), piece), params
    )
    now = old(scores)

    def learn():
        before = {name: jnp.where(is_first, x, piece[name]) for name, x in now.items()}

        def loss(scores):
            found = objective.loss(scores, piece | before, *frozen)
            return counted(found, piece)

        slope, metrics = jax.grad(loss, has_aux=True)(scores)
        return *backward(slope), metrics

    def look():
        return _zeros(jax.eval_shape(learn))

    return *jax.lax.cond(learns, learn, look), now


def _no_scores(objective, model, params, batch):
    """Zeros in the shapes of the old scores of all minibatches and pieces."""

    def scores(params, piece):
        return old(objective.scores(model(params), piece))

    piece = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), batch)
    shapes = jax.eval_shape(scores, params, piece)
    cut = jax.tree.leaves(batch)[0].shape[:2]
    return {name: jnp.zeros(cut + x.shape, x.dtype) for name, x in shapes.items()}


def _zeros(shapes):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
