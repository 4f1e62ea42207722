"""The gradient of a batch, added up from its pieces; and what is said of it.

Each piece's loss is a mean over its own `weight` (tokens or sequences); the mean over
all of them has the gradient sum(weight * gradient) / sum(weight).
"""

import jax
import jax.numpy as jnp


def whole_gradient(gradient_of, params, pieces):
    """Gradient and metrics of a batch from those of its pieces.

    Args:
      gradient_of: `gradient_of(params, piece) -> (gradient, metrics, kept)`; metrics as
        from `counted`, kept is any tree of arrays.
      params: what to differentiate by.
      pieces: dict of arrays (accumulate, rows, …).

    Returns:
      The gradient in float32, the metrics of the whole, and what was kept of each
      piece, stacked.
    """

    def add(total, piece):
        gradient, metrics, kept = gradient_of(params, piece)
        weight = metrics["weight"]
        total = jax.tree.map(lambda t, g: t + weight * g, total, gradient)
        return total, (metrics, kept)

    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    total, (metrics, kept) = jax.lax.scan(add, zeros, pieces)
    weight = jnp.maximum(metrics["weight"].sum(), 1e-9)
    return jax.tree.map(lambda t: t / weight, total), combine(metrics), kept


def counted(found, piece):
    """A piece's (loss, metrics), with "loss" and "tokens" among the metrics.

    Raises:
      ValueError: the objective did not say what its mean was divided by.
    """
    value, metrics = found
    if "weight" not in metrics:
        raise ValueError(
            'The objective must report metrics["weight"]: the number of tokens'
            " or sequences its mean was divided by."
        )
    return value, metrics | {"loss": value, "tokens": count_tokens(piece)}


def combine(metrics: dict) -> dict:
    """Metrics of a whole from those of its pieces (leading axis): sums and means.

    "weight" and "tokens" are added. The loss is averaged by weight, which may count
    answers, and so is what is said of pairs, "pair/…"; all others are means over
    tokens, whatever the loss is, and stay such.
    """

    def mean(x, by):
        return (x * by).sum() / jnp.maximum(by.sum(), 1e-9)

    weight, tokens = metrics["weight"], metrics["tokens"]
    return {
        name: x.sum()
        if name in ("weight", "tokens")
        else mean(x, weight if name == "loss" or name.startswith("pair/") else tokens)
        for name, x in metrics.items()
    }


def count_tokens(batch):
    """Tokens the loss looks at: those under the loss mask, or all if there is none."""
    if "loss_mask" in batch:
        return batch["loss_mask"].sum()
    return float(max(x.size for x in batch.values()))
