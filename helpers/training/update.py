"""The update of one step: a pure function of arrays, compiled once per batch shape.

Gradients of the pieces of a batch are added up into the gradient of the whole, the
optimizer turns it into a move, and the move is dropped if anything is not finite.
"""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


def build_update(objective, transform, graph, teacher_graphs):
    """The pure function of one step, to be compiled.

    Returns:
      `update(params, opt_state, fixed, teachers, batch, rate)`, where the leaves of
      `batch` are (minibatches, accumulate, rows, …) and `rate` is a scalar; it
      returns the new params and opt_state, and scalar metrics.
    """

    def update(params, opt_state, fixed, teachers, batch, rate):
        frozen = [
            nnx.merge(g, s) for g, s in zip(teacher_graphs, teachers, strict=True)
        ]

        def loss(params, piece):
            value, metrics = objective(nnx.merge(graph, params, fixed), piece, *frozen)
            if "weight" not in metrics:
                raise ValueError(
                    'The objective must report metrics["weight"]: the number of tokens'
                    " or sequences its mean was divided by."
                )
            return value, metrics | {"loss": value, "tokens": count_tokens(piece)}

        def one_update(state, pieces):
            params, opt_state = state
            gradient, metrics = whole_gradient(loss, params, pieces)
            metrics["grad_norm"] = optax.global_norm(gradient)
            moves, opt_state = transform.update(gradient, opt_state, as_float32(params))
            params = jax.tree.map(
                lambda p, move: (p + rate * move).astype(p.dtype), params, moves
            )
            good = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
            state = jax.tree.map(
                lambda new, old: jnp.where(good, new, old), (params, opt_state), state
            )
            return state, metrics

        state, metrics = jax.lax.scan(one_update, (params, opt_state), batch)
        return *state, combine(metrics)

    return update


def whole_gradient(loss, params, pieces):
    """Gradient and metrics of a batch from those of its pieces.

    Each piece's loss is a mean over its own `weight` (tokens or sequences); the mean
    over all of them has the gradient sum(weight * gradient) / sum(weight).

    Args:
      loss: `loss(params, piece) -> (scalar, metrics)`, metrics with "weight".
      params: what to differentiate by.
      pieces: dict of arrays (accumulate, rows, …).
    """

    def add(total, piece):
        gradient, metrics = jax.grad(loss, has_aux=True)(params, piece)
        weight = metrics["weight"]
        total = jax.tree.map(lambda t, g: t + weight * g, total, gradient)
        return total, metrics

    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    total, metrics = jax.lax.scan(add, zeros, pieces)
    weight = jnp.maximum(metrics["weight"].sum(), 1e-9)
    return jax.tree.map(lambda t: t / weight, total), combine(metrics)


def combine(metrics: dict) -> dict:
    """Metrics of a whole from those of its pieces (leading axis): sums and means.

    "weight" and "tokens" are added. The loss is averaged by weight, which may count
    answers; all others are means over tokens, whatever the loss is, and stay such.
    """

    def mean(x, by):
        return (x * by).sum() / jnp.maximum(by.sum(), 1e-9)

    weight, tokens = metrics["weight"], metrics["tokens"]
    return {
        name: x.sum()
        if name in ("weight", "tokens")
        else mean(x, weight if name == "loss" else tokens)
        for name, x in metrics.items()
    }


def count_tokens(batch):
    """Tokens the loss looks at: those under the loss mask, or all if there is none."""
    if "loss_mask" in batch:
        return batch["loss_mask"].sum()
    return float(max(x.size for x in batch.values()))


def as_float32(tree):
    """Parameters in float32, so that gradients' moments are kept in it."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), tree)
