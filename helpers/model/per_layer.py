"""Gemma 4's vectors of every token for every layer, and where their table lies.

The table is half of E2B, and of each token one row of it is needed. So it may lie in
the host's memory, from where the rows are sent to the chip (`keep_on_host`).
"""

import inspect

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental.compute_on import compute_on

from helpers.model.config import ModelConfig
from helpers.model.gemma4 import own_of, random_matrix
from helpers.model.ops import matmul, rms_norm
from helpers.runtime.sharding import everywhere, gathered, spread


class OnHost(nnx.Variable):
    """A table in the host's memory: looked up there, and never trained."""


class PerLayer(nnx.Module):
    """A small vector of every token for every layer: looked up, and made of x.

    One table holds the vectors of all layers side by side: `vectors`, or `host_vectors`
    in the host's memory.
    """

    host_vectors: OnHost

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        self.config = config
        V, D, L = config.vocab_size, config.width, config.layers
        E = own_of(config).per_layer
        self.vectors = random_matrix(rngs, V, L * E, dtype, E)
        self.projection = random_matrix(rngs, L * E, D, dtype, D)
        self.norm = nnx.Param(jnp.ones((E,), dtype))

    def __call__(self, tokens_PGT, x_PGTD):
        """(L, P, G, T, E), of tokens and what they are embedded as."""
        c, L, E = self.config, self.config.layers, own_of(self.config).per_layer
        rows = spread(self.rows(tokens_PGT)).astype(x_PGTD.dtype)
        weights = gathered({"projection": self.projection[...]}, x_PGTD.dtype)
        made = matmul(x_PGTD, weights["projection"].astype(x_PGTD.dtype).T)
        rows, made = (y.reshape(*y.shape[:-1], L, E) for y in (rows, made))
        made = made * jnp.asarray(c.width**-0.5, made.dtype)
        made = rms_norm(made, self.norm[...], c.norm_eps, plus_one=False)
        both = (made + rows * jnp.asarray(E**0.5, rows.dtype)) * 2**-0.5
        return jnp.moveaxis(both, -2, 0)

    def rows(self, tokens_PGT):
        """The table's rows of the tokens, in the chip's memory, (P, G, T, L·E)."""
        if hasattr(self, "vectors"):
            return self.vectors[...][everywhere(tokens_PGT)]
        tokens_PGT = jax.device_put(tokens_PGT, jax.memory.Space.Host)
        rows = _on_host(_look_up)(self.host_vectors[...], tokens_PGT)
        return jax.device_put(rows, jax.memory.Space.Device)


def _look_up(table, tokens_PGT):
    # The usual check of bounds would mix in constants of the chip's memory.
    return table.at[tokens_PGT].get(mode="promise_in_bounds")


def _on_host(function):
    """The function, computed by the host's processor on arrays in its memory."""
    if "out_memory_spaces" in inspect.signature(compute_on).parameters:
        spaces = {"out_memory_spaces": jax.memory.Space.Host}
        return compute_on(function, compute_type="device_host", **spaces)
    # Before jax 0.10 `compute_on` was a context.
    return compute_on("device_host")(function)


def keep_on_host(model):
    """A model whose per-layer table is in the host's memory, 4.4 GiB of E2B's 8.9.

    It computes the same, on one device; there the table is frozen.

    Args:
      model: a Transformer of Gemma 4; stays as it is.
    Raises:
      ValueError: the model has no such table, it is there already, or it is spread
        over several devices.
    """
    if not hasattr(getattr(model, "per_layer", None), "vectors"):
        raise ValueError(
            "The model has no per-layer table in the chip's memory: only Gemma 4's E2B "
            "and E4B have one, and it can be moved once."
        )
    moved = nnx.merge(*nnx.split(model))
    table = moved.per_layer.vectors[...]
    layout = getattr(table, "sharding", None)  # shapes alone have none
    if layout is not None and len(layout.device_set) > 1:
        raise ValueError(
            f"The model is spread over {len(layout.device_set)} devices: a table in the"
            " host's memory serves one."
        )
    place = jax.memory.Space.Host  # of shapes; arrays stay where they are in jax 0.7
    if not isinstance(table, jax.core.Tracer):
        place = table.sharding.with_memory_kind("pinned_host")
    table = jax.device_put(table, place)
    moved.per_layer.host_vectors = OnHost(table)
    del moved.per_layer.vectors
    return moved
