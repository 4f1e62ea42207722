"""Frozen matrices in few bits: how they are stored, and what they stand for.

A layer holds the codes under the matrix's own name and what scales them under names
that begin with it, `q`, `q_scale`, …; products are made with the decoded matrix.
"""

import statistics

import jax
import jax.numpy as jnp
from flax import nnx

BLOCK = 64  # numbers of a column that share a scale
GROUP = 256  # scales that share one in turn, if they are stored in 8 bits
# What `lora.quantize` takes, and what adapters' folders say of the base they fit.
KINDS = {
    "int8": "int8, a scale per column",
    "nf4": f"NF4, a scale per {BLOCK}",
    "nf4 double": f"NF4, a scale per {BLOCK}, itself in 8 bits",
}
ENDS = ("_scale", "_scale_step", "_scale_mean")


class Quantized(nnx.Variable):
    """A frozen matrix's codes, or what scales them."""


def kind_of(layers, name) -> str:
    """How a layer's matrix is stored, one of KINDS; "" if as it is."""
    dtype = getattr(layers, name).dtype
    if dtype == jnp.uint8:
        scale = getattr(layers, f"{name}_scale")
        return "nf4 double" if scale.dtype == jnp.int8 else "nf4"
    return "int8" if dtype == jnp.int8 else ""


def parts(layers, name) -> dict:
    """The arrays that a quantized matrix is made of, by what follows its name."""
    ends = [end for end in ("", *ENDS) if hasattr(layers, name + end)]
    return {end: getattr(layers, name + end)[...] for end in ends}


def shape(layers, name) -> tuple[int, ...]:
    """The shape of a matrix, however it is stored."""
    *stack, rows, columns = getattr(layers, name).shape
    return *stack, rows * (2 if kind_of(layers, name).startswith("nf4") else 1), columns


def encode(weight, kind) -> dict:
    """The arrays that a matrix (..., in, out) is stored as.

    Args:
      kind: one of KINDS. int8 has a scale per column, whose largest entry becomes ±127;
        NF4 a scale per 64 entries (`encode_nf4`).
    """
    if kind != "int8":
        return encode_nf4(weight, double=kind == "nf4 double")
    weight = weight.astype(jnp.float32)
    scale = jnp.abs(weight).max(axis=-2, keepdims=True) / 127
    rounded = jnp.round(weight / jnp.maximum(scale, 1e-30)).astype(jnp.int8)
    return {"": rounded, "_scale": scale}


def decode(stored: dict):
    """The float32 matrix (..., in, out) that its `parts` stand for."""
    if "_scale" not in stored:
        return stored[""].astype(jnp.float32)
    if stored[""].dtype == jnp.int8:
        return stored[""].astype(jnp.float32) * stored["_scale"]
    return decode_nf4(stored)


def levels() -> tuple[float, ...]:
    """The 16 values of NF4, from -1 to 1, as QLoRA's appendix E derives them.

    The quantiles of probabilities 0 and 1 are infinite, so the outermost stand half a
    bin further in: 1/32 with 16 equal bins, 1/30 with 15, and δ is the mean of the two.
    Zeros shall stay zero, and 16 evenly spaced probabilities would miss 1/2, whose
    quantile is 0. Hence 8 of them go from δ up to 1/2, and 9 from 1/2 up to 1 - δ; the
    quantiles, 0 once, are divided by the largest.
    """
    inner = (1 / 32 + 1 / 30) / 2
    below = [inner + i * (0.5 - inner) / 7 for i in range(7)]
    above = [0.5 + i * (0.5 - inner) / 8 for i in range(1, 9)]
    normal = statistics.NormalDist()
    quantiles = [normal.inv_cdf(p) for p in below] + [0.0]
    quantiles += [normal.inv_cdf(p) for p in above]
    # Both ends are equally far from zero; rounding must not make one of them larger.
    return (-1.0, *(x / quantiles[-1] for x in quantiles[1:-1]), 1.0)


LEVELS = levels()


def encode_nf4(weight, double=False) -> dict[str, jax.Array]:
    """Matrices as codes of 4 bits, and scales.

    Args:
      weight: (..., in, out) float. A column is cut into blocks of 64; a last one may be
        shorter.
      double: store the scales in 8 bits, too (QLoRA's double quantisation): less their
        mean, with one float32 for every 256 of them.
    Returns:
      By what comes behind the matrix's name: "" (..., in / 2, out) uint8, the codes of
      the upper half of the rows in the low 4 bits and those of the lower half in the
      high ones; "_scale" (..., blocks, out) float32, or with `double` int8 beside
      "_scale_step" (..., groups) and "_scale_mean" (..., 1) float32.
    Raises:
      ValueError: the number of rows is odd.
    """
    rows, columns = weight.shape[-2:]
    if rows % 2:
        raise ValueError(
            f"A matrix of {rows} × {columns} cannot be stored as NF4: a byte holds two"
            f" rows' codes, and {rows} is odd. Store it as int8."
        )
    weight = weight.astype(jnp.float32)
    scale = jnp.abs(_blocks(weight)).max(axis=-2)
    relative = weight / jnp.maximum(_every_row(scale, rows), 1e-30)
    edges = [(low + high) / 2 for low, high in zip(LEVELS, LEVELS[1:], strict=False)]
    codes = sum((relative > edge).astype(jnp.uint8) for edge in edges)
    upper, lower = jnp.split(jnp.asarray(codes), 2, axis=-2)
    parts = {"": upper | (lower << 4)}
    return parts | (_encode_scales(scale) if double else {"_scale": scale})


def decode_nf4(parts: dict[str, jax.Array]):
    """The float32 matrices (..., in, out) that `encode_nf4`'s arrays stand for."""
    both = parts[""]
    codes = jnp.concatenate([both & 15, both >> 4], axis=-2)
    return _level(codes) * _every_row(_decode_scales(parts), codes.shape[-2])


def _level(codes):
    """LEVELS[codes], by halving: a TPU is quick at choosing and slow at looking up."""
    values = [jnp.float32(x) for x in LEVELS]
    for bit in range(4):
        is_set = (codes >> bit) & 1 == 1
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [jnp.where(is_set, high, low) for low, high in pairs]
    return values[0]


def _blocks(weight):
    """(..., in, out) as (..., blocks, 64, out), the last block filled with zeros."""
    *stack, rows, columns = weight.shape
    missing = [(0, 0)] * len(stack) + [(0, -rows % BLOCK), (0, 0)]
    return jnp.pad(weight, missing).reshape(*stack, -1, BLOCK, columns)


def _every_row(scale, rows):
    """Scales (..., blocks, out) as (..., rows, out)."""
    return jnp.repeat(scale, BLOCK, axis=-2)[..., :rows, :]


def _encode_scales(scale):
    """Scales as whole multiples, -127 to 127, of a step, away from their mean."""
    flat = scale.reshape(*scale.shape[:-2], -1)
    mean = flat.mean(axis=-1, keepdims=True)
    missing = [(0, 0)] * (flat.ndim - 1) + [(0, -flat.shape[-1] % GROUP)]
    away = jnp.pad(flat - mean, missing).reshape(*flat.shape[:-1], -1, GROUP)
    step = jnp.abs(away).max(axis=-1) / 127
    codes = jnp.round(away / jnp.maximum(step, 1e-30)[..., None]).astype(jnp.int8)
    codes = codes.reshape(*flat.shape[:-1], -1)[..., : flat.shape[-1]]
    codes = codes.reshape(scale.shape)
    return {"_scale": codes, "_scale_step": step, "_scale_mean": mean}


def _decode_scales(parts):
    """The float32 scales (..., blocks, out), of either way to store them."""
    scale = parts["_scale"]
    if scale.dtype != jnp.int8:
        return scale
    flat = scale.reshape(*scale.shape[:-2], -1)
    step = jnp.repeat(parts["_scale_step"], GROUP, axis=-1)[..., : flat.shape[-1]]
    # A scale is never negative, and its rounding shall not turn a weight's sign.
    known = jnp.maximum(flat * step + parts["_scale_mean"], 0)
    return known.reshape(scale.shape)
