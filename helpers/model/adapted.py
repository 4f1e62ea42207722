"""Products with several matrices at once, and with the thin adapters beside them.

Alone, a product with a thin matrix leaves most of a TPU's units idle and brings all of
x through memory for little. Here its rank rides on the wide product beside it.
"""

import functools
from itertools import accumulate

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from helpers.model.ops import product_transposed


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def products(x, weights, adapters, widens):
    """x @ w + (x @ a) @ b for each matrix w and its adapter (a, b), as one product.

    With all matrices side by side it is [x, x @ a] @ [w; b] if `widens`: the ranks are
    more to sum over. Else x @ [w, a] gives x @ a as more columns; then b's follow.

    Args:
      x: (..., in).
      weights: matrices (in, out), in the dtype of x.
      adapters: as many (a (in, rank), b (rank, out)), () for a matrix without one.
      widens: which of the two forms; the better one where out is larger than in.
    Returns:
      One (..., out) for each matrix, in the dtype of x.
    """
    return _forward(x, weights, adapters, widens)[0]


def _forward(x, weights, adapters, widens):
    weight, thin, back = side_by_side(weights, adapters)
    if widens:
        inner = checkpoint_name(_product(x, thin), "inner")
        whole = jnp.concatenate([x, inner], axis=-1)
        out = _product(whole, jnp.concatenate([weight, back]))
    else:
        out = _product(x, jnp.concatenate([weight, thin], axis=1))
        out, inner = cut(out, [weight, thin])
        inner = checkpoint_name(inner, "inner")
        out = out + _product(inner, back)
    return cut(out, weights), (x, inner, weights, adapters)


def _backward(widens, saved, gradients):
    """One matrix at a time: gradients side by side would be a large copy."""
    x, inner, weights, adapters = saved
    inners = iter(cut(inner, [pair[0] for pair in adapters if pair]))
    slopes: list[tuple] = []
    for weight, pair, gradient in zip(weights, adapters, gradients, strict=True):
        gradient = jax.lax.optimization_barrier(gradient)
        if not pair:
            for_x = product_transposed(gradient, weight)
            slopes.append((for_x, _summed(x, gradient), ()))
            continue
        a, b = pair
        if widens:
            both = product_transposed(gradient, jnp.concatenate([weight, b]))
            for_x, for_inner = cut(both, [weight.T, b.T])
            for_x = for_x + product_transposed(for_inner, a)
        else:
            for_inner = product_transposed(gradient, b)
            whole = jnp.concatenate([gradient, for_inner], axis=-1)
            for_x = product_transposed(whole, jnp.concatenate([weight, a], axis=1))
        for_pair = _summed(x, for_inner), _summed(next(inners), gradient)
        slopes.append((for_x, _summed(x, gradient), for_pair))
    all_x, for_weights, for_adapters = zip(*slopes, strict=True)
    return functools.reduce(jnp.add, all_x), list(for_weights), list(for_adapters)


products.defvjp(_forward, _backward)


def _product(x, weight):
    return jnp.matmul(x, weight, preferred_element_type=x.dtype)


def _summed(x, gradient):
    """The gradient of a matrix: x by gradient, summed over all tokens."""
    return x.reshape(-1, x.shape[-1]).T @ gradient.reshape(-1, gradient.shape[-1])


def side_by_side(weights, adapters):
    """All matrices, all first halves, and the second halves on a diagonal."""
    pairs = [pair for pair in adapters if pair]
    rank = sum(a.shape[1] for a, _ in pairs)
    columns, start = [], 0
    for weight, pair in zip(weights, adapters, strict=True):
        column = jnp.zeros((rank, weight.shape[1]), weight.dtype)
        if pair:
            column = jax.lax.dynamic_update_slice(column, pair[1], (start, 0))
            start += pair[1].shape[0]
        columns.append(column)
    first = [a for a, _ in pairs]
    return tuple(jnp.concatenate(some, axis=1) for some in (weights, first, columns))


def cut(x, like):
    """x cut along its last axis into pieces as wide as some matrices."""
    ends = accumulate(matrix.shape[-1] for matrix in like)
    return jnp.split(x, list(ends)[:-1], axis=-1)
