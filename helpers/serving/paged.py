"""Keys and values in blocks: where a text's tokens lie is looked up in a table.

`serving.block_pool` decides which block holds what; here are the arrays, and one
program that reads new tokens of several texts, whatever stands in the cache of each. It
gathers a text's blocks into one piece before it attends; a kernel made for it (vLLM's)
reads them where they lie.

Axes: L layers, N blocks, S tokens in a block, K key heads, H head width, B texts,
T new tokens of each, M blocks in a table.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model.attention import KV
from helpers.runtime.devices import jit


class Pages(NamedTuple):
    """The memory of all blocks; one more than there are, for what nobody reads.

    keys: (L, N+1, K, H, S). values: (L, N+1, K, S, H).
    """

    keys: jax.Array
    values: jax.Array

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.keys.nbytes + self.values.nbytes


def pages(model, blocks: int, size: int) -> Pages:
    """Empty memory for so many blocks of `size` tokens, in the model's activations.

    Raises:
      ValueError: a Gemma 4, whose layers' keys are of two shapes.
    """
    c = model.config
    if c.gemma4:
        raise ValueError(
            "Blocks hold keys of one shape, and the layers of Gemma 4 have two: serve "
            "it with another engine, or answer with helpers.generation."
        )
    shape = (c.layers, blocks + 1, c.kv_heads, c.head_dim, size)
    keys = jnp.zeros(shape, model.activations)
    return Pages(keys, keys.swapaxes(3, 4))


def read(program, pages: Pages, tokens_BT, mask_BT, table_BM, seen_B):
    """Reads new tokens of several texts, and puts their keys and values into blocks.

    Args:
      program: `nnx.split(model)` of a Transformer.
      pages: the memory; it is used up, go on with the one returned.
      tokens_BT, mask_BT: int32, right-padded; a text without a new token changes
        nothing, and its logits mean nothing.
      table_BM: int32, the blocks of each text in order; entries beyond its tokens
        are ignored.
      seen_B: int32, how many tokens of each text are in the cache already.
    Returns:
      (logits (B, V) after each text's last new token, the memory with them).
    """
    rows = [jnp.asarray(x, jnp.int32) for x in (tokens_BT, mask_BT, table_BM, seen_B)]
    return _read(*program, pages, *rows)


@functools.partial(jit, static_argnames=("graph",), donate_argnames=("pages",))
def _read(graph, weights, pages, tokens_BT, mask_BT, table_BM, seen_B):
    model = nnx.merge(graph, weights)
    places_BT = seen_B[:, None] + jnp.arange(tokens_BT.shape[1])
    hidden, new = model(
        tokens_BT[:, None],
        places_BT[:, None],
        mask_BT[:, None],
        earlier=(_gathered(pages, table_BM, seen_B),),
    )
    last_B = jnp.maximum(mask_BT.sum(axis=1) - 1, 0)
    last_BD = jnp.take_along_axis(hidden[:, 0], last_B[:, None, None], axis=1)[:, 0]
    return model.logits(last_BD), _written(pages, new, mask_BT, table_BM, places_BT)


def _gathered(pages, table_BM, seen_B) -> KV:
    """The blocks of each text as one piece of the past."""
    B, M = table_BM.shape
    keys = jnp.moveaxis(pages.keys[:, table_BM], 2, 4)  # L B K H M S
    values = jnp.moveaxis(pages.values[:, table_BM], 2, 3)  # L B K M S H
    L, _, K, H, _, S = keys.shape
    place = jnp.broadcast_to(jnp.arange(M * S), (B, 1, M * S))
    return KV(
        keys.reshape(L, B, 1, K, H, M * S),
        values.reshape(L, B, 1, K, M * S, H),
        place,
        (place < seen_B[:, None, None]).astype(jnp.int32),
    )


def _written(pages, new, mask_BT, table_BM, places_BT) -> Pages:
    """The memory with the new tokens; padding goes to the block that nobody reads."""
    S = pages.keys.shape[-1]
    nobody = pages.keys.shape[1] - 1
    slot = jnp.minimum(places_BT // S, table_BM.shape[1] - 1)
    block = jnp.take_along_axis(table_BM, slot, axis=1)
    block, offset = jnp.where(mask_BT > 0, block, nobody), places_BT % S
    keys = jnp.transpose(new.keys[:, :, 0], (1, 4, 0, 2, 3))  # B T L K H
    values = jnp.transpose(new.values[:, :, 0], (1, 3, 0, 2, 4))
    return Pages(
        pages.keys.at[:, block, :, :, offset].set(keys),
        pages.values.at[:, block, :, offset].set(values),
    )


@functools.partial(jax.jit, donate_argnums=0)
def copied(pages: Pages, source: jax.Array, target: jax.Array) -> Pages:
    """The memory with blocks copied, as `Place.copy_of` asks for.

    Args:
      source, target: (n,) int32, blocks; the memory is used up.
    """
    return jax.tree.map(lambda x: x.at[:, target].set(x[:, source]), pages)
