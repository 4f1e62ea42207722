"""What both halves of the model compute with: products, norms, a walk over layers."""

import functools
import math
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from helpers.model.families import FIELDS


def random_matrix(rngs, shape, dtype, size=None):
    """A parameter of noise with a deviation of 1 / √size; None: of 1 / √rows."""
    noise = jax.random.normal(rngs.params(), shape, jnp.float32)
    return nnx.Param((noise * (size or shape[0]) ** -0.5).astype(dtype))


def vector(size, value, dtype):
    """A parameter (size,) of equal numbers."""
    return nnx.Param(jnp.full((size,), value, dtype))


def stack(make, count, rngs):
    """`count` modules from `make(rngs)` as one, whose weights carry a leading axis."""

    @nnx.split_rngs(splits=count)
    @nnx.vmap(in_axes=0, out_axes=0)
    def made(rngs):
        return make(rngs)

    return made(rngs)


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
    for_weight = _summed(x, gradient)
    return product_transposed(gradient, weight), for_weight.astype(weight.dtype)


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
_attended = "attended", "attention_total"
_layer = _policies.save_only_these_names(*_attended)
_attention = _policies.save_only_these_names(*_attended, *"qkvo", "down", "inner")
_cheap = _policies.save_from_both_policies(
    _layer, _policies.dots_with_no_batch_dims_saveable
)
REMAT: dict[str, Callable] = {
    "layer": functools.partial(jax.checkpoint, policy=_layer),
    "attention": functools.partial(jax.checkpoint, policy=_attention),
    "cheap": functools.partial(jax.checkpoint, policy=_cheap),
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
    results = []
    for i in range(len(jax.tree.leaves(layers)[0])):
        x, made = layer(x, jax.tree.map(lambda a, i=i: a[i], layers))
        results.append(made)
    return x, jax.tree.map(lambda *each: jnp.stack(each), *results)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def lora_matmuls(x, weights, adapters, widens):
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
    return _lora_forward(x, weights, adapters, widens)[0]


def _lora_forward(x, weights, adapters, widens):
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


def _lora_backward(widens, saved, gradients):
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


lora_matmuls.defvjp(_lora_forward, _lora_backward)


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


# By kind, our name of each setting and the one in config.json.
STRETCHES = FIELDS["stretches"]


class Stretch(NamedTuple):
    """How far a model's rotary angles were stretched for longer texts.

    kind: "linear" divides every angle by `factor`; "llama3" only those whose wave is
    longer than `original / low` tokens, none whose wave is shorter than
    `original / high`, and blends in between (Llama 3.1's `rope_scaling`);
    "proportional" turns the first `share` of the pairs only (Gemma 4).
    original: the length in tokens the model was first trained on.
    """

    kind: str
    factor: float
    low: float = 1.0
    high: float = 4.0
    original: int = 8192
    share: float = 1.0

    @classmethod
    def from_hf(cls, rope: dict) -> "Stretch":
        """Reads a `rope_scaling` of config.json that has all its fields."""
        kind = rope["rope_type"]
        return cls(kind, **{our: rope[name] for our, name in STRETCHES[kind].items()})

    def to_hf(self) -> dict:
        """The `rope_scaling` of config.json."""
        names = STRETCHES[self.kind].items()
        return {"rope_type": self.kind} | {n: getattr(self, our) for our, n in names}


def frequencies(head_dim: int, theta: float, stretch: Stretch | None = None):
    """Radians per token of each pair of channels, float64 (head_dim / 2,)."""
    frequency = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    if stretch is None:
        return frequency
    if stretch.kind == "linear":
        return frequency / stretch.factor
    if stretch.kind == "proportional":
        turned = np.arange(head_dim // 2) < int(stretch.share * head_dim // 2)
        return np.where(turned, frequency, 0) / stretch.factor
    waves = stretch.original * frequency / (2 * math.pi)  # in the original length
    fast = np.clip((waves - stretch.low) / (stretch.high - stretch.low), 0, 1)
    return fast * frequency + (1 - fast) * frequency / stretch.factor


def rotary(positions_PGT, frequency):
    """Cosines and sines of rotary positions, float32 (P, G, T, H/2)."""
    frequency = jnp.asarray(frequency, jnp.float32)
    angle = positions_PGT[..., None].astype(jnp.float32) * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rotate(x_PGNTH, cos_sin):
    """Turns each head's halves by its position; (P, G, heads, T, H), dtype kept."""
    cos, sin = (part[:, :, None].astype(x_PGNTH.dtype) for part in cos_sin)
    first, second = jnp.split(x_PGNTH, 2, axis=-1)
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )


def rotaries(positions, config):
    """`rotary` of a model's global layers, and of its local ones."""
    c = config
    return [
        rotary(positions, frequencies(c.head_dim, c.rope_theta, c.stretch)),
        rotary(positions, frequencies(c.head_dim, c.rope_local_theta)),
    ]
