"""Frozen matrices in few bits: how they are stored, and what they stand for.

A layer holds the codes under the matrix's own name and what scales them under names
that begin with it, `q`, `q_scale`, …; products are made with the decoded matrix.
"""

import jax.numpy as jnp
from flax import nnx

from helpers.model import nf4

# What `lora.quantize` takes, and what adapters' folders say of the base they fit.
KINDS = {
    "int8": "int8, a scale per column",
    "nf4": f"NF4, a scale per {nf4.BLOCK}",
    "nf4 double": f"NF4, a scale per {nf4.BLOCK}, itself in 8 bits",
}
ENDS = ("_scale", "_scale_step", "_scale_mean")


class Quantized(nnx.Variable):
    """A frozen matrix's codes, or what scales them."""


def kind_of(layers, name) -> str:
    """How a layer's matrix is stored, one of KINDS; "" if as it is, or not there."""
    held = getattr(layers, name, None)
    if held is None or held.dtype not in (jnp.int8, jnp.uint8):
        return ""
    if held.dtype == jnp.int8:
        return "int8"
    is_double = getattr(layers, f"{name}_scale").dtype == jnp.int8
    return "nf4 double" if is_double else "nf4"


def parts(layers, name) -> dict:
    """The arrays that a quantized matrix is made of, by what follows its name."""
    names = {end: getattr(layers, name + end, None) for end in ("", *ENDS)}
    return {end: held[...] for end, held in names.items() if held is not None}


def shape(layers, name) -> tuple[int, ...]:
    """The shape of a matrix, however it is stored."""
    *stack, rows, columns = getattr(layers, name).shape
    return *stack, rows * (2 if kind_of(layers, name).startswith("nf4") else 1), columns


def encode(weight, kind) -> dict:
    """The arrays that a matrix (..., in, out) is stored as.

    Args:
      kind: one of KINDS. int8 has a scale per column, whose largest entry becomes ±127;
        NF4 a scale per 64 entries (`nf4.encode`).
    """
    if kind != "int8":
        return nf4.encode(weight, double=kind == "nf4 double")
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
    return nf4.decode(stored)
