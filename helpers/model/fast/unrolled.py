"""Layers as decoding reads them: one after the other, their matrices joined beforehand.

Walking a stack of layers copies each one's weights, and its keys and values, before it
uses them; a thin adapter beside a matrix leaves most of a TPU's units idle. Where the
same weights serve hundreds of passes both are paid once: the layers lie apart, and a
matrix and its adapter are one, x @ w + (x @ a) @ b = [x, x @ a] @ [w; b].
"""

import functools
import math

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import quantized
from helpers.model.attention import KV, summing
from helpers.model.ops import cut, matmul, rotaries, side_by_side
from helpers.runtime.sharding import cut_over_model

TOGETHER = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
# Bytes that a copy of all layers may take beside them. To compile it, Colab's jax 0.7.2
# (libtpu 0.0.23) takes over 20 GB of the host's memory.
ROOM = 3 * 2**30 if jax.__version_info__ >= (0, 10) else 0


def pays(model) -> bool:
    """Whether decoding with the model gains by `unrolled`, and has room for it.

    On CPUs, whose models are float32, it costs a tenth for many rows. A quantized base
    would be kept in full beside its codes; and matrices cut over several devices would
    be dealt anew. Gemma 4 and quantized bases go without a scan only (`ops.decodes`).
    """
    if model.config.gemma4 or model.activations != "bfloat16" or cut_over_model():
        return False
    stacked = nnx.state(model.layers)
    if jax.tree.leaves(nnx.filter_state(stacked, quantized.Quantized)):
        return False
    return 2 * sum(math.prod(x.shape) for x in jax.tree.leaves(stacked)) <= ROOM


class Unrolled:
    """The layers of a model apart, for `Transformer.__call__` in a loop.

    Args:
      model: a Transformer whose weights are gathered and not quantized; not Gemma 4.
    """

    def __init__(self, model):
        self.config = model.config
        graph, stacked = nnx.split(model.layers)
        self.layers = []
        for i in range(self.config.layers):
            layer = nnx.merge(graph, jax.tree.map(lambda x, i=i: x[i], stacked))
            ready = {names: _joined(layer, names, model) for names in TOGETHER}
            # Else the compiler joins them anew in every pass.
            ready = jax.lax.optimization_barrier(ready)
            layer.joined = functools.partial(_products, ready)
            self.layers.append(layer)

    def __call__(self, x, positions_PGT, seen, pieces, reach, at=None):
        """All layers: the new x, and lists of their keys and values.

        Args:
          at: the column of the last piece, the cache, into which each layer writes its
            own before it looks; the cache's are returned. Else a TPU would read the
            cache once to look at it, and once more to write into it. None: the new
            tokens' own stand beside it, where answers have columns of their own.
        """
        c = self.config
        # The masks tell which layers are local; a kernel would ask `reach`.
        reach = reach._replace(segments=None)
        ropes = rotaries(positions_PGT, c)
        everything = [allowed for allowed, _ in seen]
        near = [allowed & (distance < c.window) for allowed, distance in seen]
        if at is not None:
            everything, near = (_one_piece(masks, at) for masks in (everything, near))
        new = []
        for i, layer in enumerate(self.layers):
            far = c.is_global(i)
            earlier = [(keys[i], values[i]) for keys, values in pieces]
            masks = everything if far else near
            cos_sin = ropes[0 if far else 1]
            x, kv = layer(x, cos_sin, earlier, masks, reach, at)
            new.append(kv)
        return x, tuple(map(list, zip(*new, strict=True)))


def _one_piece(masks, at):
    """The new tokens' own mask in their columns of the cache's."""
    *earlier, cache, new = masks
    put = jax.lax.dynamic_update_slice_in_dim
    return [*earlier, put(cache, new, at, axis=-1)]


def for_decoding(model, *pieces):
    """A model's layers apart, and KV pieces as they take them.

    Where it does not pay: None, and the pieces as they are.

    Args:
      pieces: KV of the model's whole stack.
    """
    if not pays(model):
        return None, pieces
    return Unrolled(model), tuple(map(apart, pieces))


def apart(kv: KV) -> KV:
    """Keys and values as lists of each layer's own, as `Unrolled` takes them."""
    H = kv.keys.shape[-2]
    values = [summing(x, H) for x in kv.values]
    return kv._replace(keys=list(kv.keys), values=values)  # type: ignore[arg-type]


def stacked(kv: KV) -> KV:
    """Undoes `apart`."""
    keys, values = jnp.stack(kv.keys), jnp.stack(kv.values)
    return kv._replace(keys=keys, values=values[..., : keys.shape[-2]])


def _joined(layer, names, model):
    """Some matrices with their adapters as one, the thin halves, and all widths."""
    whole = [layer.weight(name).astype(model.activations) for name in names]
    thin = [
        tuple(part.astype(model.activations) for part in layer.adapter(name))
        for name in names
    ]
    if not any(thin):
        return jnp.concatenate(whole, axis=1), None
    weight, first, second = side_by_side(whole, thin)
    return jnp.concatenate([weight, second]), first


def _products(ready, layer, x, names):
    """x times each matrix and its adapter."""
    whole, thin = ready[names]
    if thin is not None:
        x = jnp.concatenate([x, matmul(x, thin)], axis=-1)
    return cut(matmul(x, whole), [getattr(layer, name)[...] for name in names])
