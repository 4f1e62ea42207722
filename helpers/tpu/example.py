"""An example small enough to see where its time goes: feed-forward layers on v5e."""

import gzip

import jax
import jax.numpy as jnp

from helpers.model.ops import rms_norm
from helpers.runtime.platform import ROOT

LAYERS, TOKENS, WIDTH, INNER = 24, 4096, 896, 4864  # as Qwen2.5-0.5B has them


def loss(weights, x, again):
    """Mean square of what feed-forward layers with norms make of x; `again`: remat."""

    def layer(x, w):
        norm, gate, up, down = w
        y = rms_norm(x, norm, 1e-6, False)
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down, None

    x, _ = jax.lax.scan(jax.checkpoint(layer) if again else layer, x, weights)
    return jnp.mean(jnp.square(x.astype(jnp.float32)))


def file(again: bool):
    """Where `make tpu-check TPU_ARGS=--example` writes the compiled text."""
    name = f"feed_forward_{'again' if again else 'kept'}.hlo.gz"
    return ROOT / "data" / "programs" / name


def text(again: bool) -> str:
    """The loss and its gradient by all weights, as compiled for one v5e chip.

    Args:
      again: whether a layer is computed again in the backward pass, instead of kept.
    """
    return gzip.decompress(file(again).read_bytes()).decode()
