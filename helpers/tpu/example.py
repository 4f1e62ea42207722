"""An example small enough to see where its time goes: feed-forward layers on v5e.

Without libtpu, as on most laptops, the compiled text comes from data/programs.
"""

import functools
import gzip

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from helpers.model.ops import rms_norm
from helpers.runtime.platform import ROOT
from helpers.tpu import compiler

FOLDER = ROOT / "data" / "programs"
LAYERS, TOKENS, WIDTH, INNER = 24, 4096, 896, 4864  # as Qwen2.5-0.5B has them


def loss(weights, x, again):
    """Mean square of what feed-forward layers with norms make of x; `again`: remat."""

    def layer(x, w):
        norm, gate, up, down = w
        y = rms_norm(x, norm, 1e-6, False)
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down, None

    x, _ = jax.lax.scan(jax.checkpoint(layer) if again else layer, x, weights)
    return jnp.mean(jnp.square(x.astype(jnp.float32)))


def compiled(again: bool) -> str:
    """The text of the loss and its gradient by all weights, compiled for one v5e chip.

    Args:
      again: whether a layer is computed again in the backward pass, instead of kept.
    Raises:
      LookupError: libtpu is not here.
    """
    chip = SingleDeviceSharding(compiler.devices("v5e-1")[0])

    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=chip)

    weights = (
        array(LAYERS, WIDTH),
        array(LAYERS, WIDTH, INNER),
        array(LAYERS, WIDTH, INNER),
        array(LAYERS, INNER, WIDTH),
    )
    step = jax.jit(jax.value_and_grad(functools.partial(loss, again=again)))
    return compiler.text(step, weights, array(TOKENS, WIDTH))


def file(again: bool):
    """Where the text is kept."""
    return FOLDER / f"feed_forward_{'again' if again else 'kept'}.hlo.gz"


def text(again: bool) -> str:
    """What `compiled` says, asked of the compiler if it is here, else read."""
    if compiler.find_compiler():
        return compiled(again)
    return gzip.decompress(file(again).read_bytes()).decode()
