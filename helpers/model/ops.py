"""What both halves of the model compute with: products, norms, a walk over layers."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp


@jax.custom_vjp
def matmul(x, weight):
    """x @ weight, (..., in) by (in, out), in the dtype of x.

    A float32 x is rounded to meet a bfloat16 weight, and the products are summed in
    float32, as a TPU does: a CPU with such instructions takes half the time.

    Its own gradient rule, because XLA on CPUs otherwise fuses the derivative of what
    came after it with a transpose, and walks memory against the grain (1.2× per step).
    """
    return _product(x, weight)


def _product(x, weight):
    return jnp.matmul(*narrowed(x, weight), preferred_element_type=x.dtype)


def product_transposed(x, weight):
    """x @ weight.T, rounded and summed as `matmul` does; without a rule of its own."""
    if x.dtype == weight.dtype:
        return x @ weight.T
    # XLA on CPUs has bfloat16 instructions for this form, and none for weight.T.
    both = narrowed(x, weight)
    return jnp.einsum("...d,vd->...v", *both, preferred_element_type=x.dtype)


def narrowed(x, y):
    """Both in the dtype of the one that has fewer bytes a number."""
    dtype = min(x.dtype, y.dtype, key=lambda dtype: dtype.itemsize)
    return x.astype(dtype), y.astype(dtype)


# The rules call no function with a rule of its own: what is kept for the backward pass
# is chosen among plain products (`REMAT`).
def _matmul_forward(x, weight):
    return _product(x, weight), (x, weight)


def _matmul_backward(saved, gradient):
    x, weight = saved
    gradient = jax.lax.optimization_barrier(gradient)
    rows, columns = weight.shape
    for_weight = x.reshape(-1, rows).T @ gradient.reshape(-1, columns)
    for_x = product_transposed(gradient, weight)
    return for_x, for_weight.astype(weight.dtype)


matmul.defvjp(_matmul_forward, _matmul_backward)


def rms_norm(x, weight, eps, plus_one):
    """Root-mean-square norm over the last axis in float32 (1910.07467), dtype kept."""
    x32 = x.astype(jnp.float32)
    x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + eps)
    scale = weight.astype(jnp.float32) + (1.0 if plus_one else 0.0)
    return (x32 * scale).astype(x.dtype)


def picked(x_PGT, at_PG):
    """Of each row the one token at a place, (P, G, T, ...) -> (P, G, 1, ...)."""
    rest = (1,) * (x_PGT.ndim - 2)
    return jnp.take_along_axis(x_PGT, at_PG.reshape(*at_PG.shape, *rest), axis=2)


# What the backward pass computes again: all of a layer but what attention found (least
# memory); also not attention's own products, the adapters' inner ones and what the
# feed-forward gave, which Gemma normalises; only what is no product with a weight; or
# nothing. Of a name that the backward pass does not ask for, nothing is kept.
_policies = jax.checkpoint_policies
_found = "attended", "attention_total"
_FOUND = _policies.save_only_these_names(*_found)
_ATTENTION = _policies.save_only_these_names(
    *_found, "q", "k", "v", "o", "down", "inner"
)
_PRODUCTS = _policies.save_from_both_policies(
    _FOUND, _policies.dots_with_no_batch_dims_saveable
)
REMAT: dict[str, Callable] = {
    "layer": functools.partial(jax.checkpoint, policy=_FOUND),
    "attention": functools.partial(jax.checkpoint, policy=_ATTENTION),
    "cheap": functools.partial(jax.checkpoint, policy=_PRODUCTS),
    "none": lambda function: function,
}


def rematerialised(kind: str) -> Callable:
    """What wraps a layer so that its backward pass computes again what `kind` says.

    Raises:
      ValueError: it is none of REMAT.
    """
    if kind not in REMAT:
        raise ValueError(f"remat is {kind!r}: choose one of {', '.join(REMAT)}.")
    return REMAT[kind]


def decodes(x_PGTD):
    """Whether x is one token of each text, in bfloat16 as on TPUs.

    Then Gemma 4's layers, and those in few bits, are walked one by one. A scan copies
    the weights of each layer, and its keys and values, before it uses them: half of
    the time of such a pass of E2B. Passes over longer texts have more to compute with
    what is copied, and would compile for minutes. Models on CPUs are float32.
    """
    return x_PGTD.shape[-2] == 1 and x_PGTD.dtype == jnp.bfloat16


def one_by_one(layer, x, layers):
    """What `jax.lax.scan` finds, with each step compiled by itself."""
    found = []
    for i in range(len(jax.tree.leaves(layers)[0])):
        x, made = layer(x, jax.tree.map(lambda a, i=i: a[i], layers))
        found.append(made)
    return x, jax.tree.map(lambda *each: jnp.stack(each), *found)
