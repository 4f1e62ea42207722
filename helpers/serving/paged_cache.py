"""A paged KV cache: blocks of a few tokens, shared by texts that begin alike.

A rectangular cache reserves room for the longest answer beside every prompt. Here a
text gets blocks one by one as it grows, all from one pool (PagedAttention, 2309.06180).
Texts with the same beginning share the full blocks of it. The blocks of a closed text
stay readable until their memory is needed.

`BlockPool` is the bookkeeping: which block contains which tokens. `Pages` are the
arrays, and `read` runs the model on new tokens of several texts. It gathers a text's
blocks into one piece before it attends; vLLM's kernel reads them where they lie.

Axes: L layers, N blocks, S tokens in a block, K key heads, H head width, B texts,
T new tokens of each, M blocks in a table.
"""

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model.attention import KV
from helpers.runtime.platform import jit


class OutOfBlocks(RuntimeError):
    """Every block is in use: close a text, or wait until one is closed."""


@dataclasses.dataclass(eq=False)
class Text:
    """A text in the cache: its tokens, and the blocks that store them, in order.

    Made by `BlockPool.open` and `BlockPool.fork`; the pool changes it.
    """

    tokens: list[int]
    blocks: list[int]


class Place(NamedTuple):
    """Where a token's keys and values go.

    Attributes:
      block, offset: the block, and the place in it.
      copy_of: a block whose content has to be copied into `block` first, or None.
    """

    block: int
    offset: int
    copy_of: int | None = None


class BlockPool:
    """A fixed number of blocks, and the texts that use them.

    Args:
      blocks: how many there are.
      size: tokens in a block.
    """

    def __init__(self, blocks: int, size: int):
        self.size = size
        self.users = [0] * blocks
        # In the order in which they are given away: those that contain nothing first,
        # then the readable ones, the longest unused first.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        # A full block is identified by all tokens up to its end.
        self._block_of: dict[tuple, int] = {}
        self._beginning: dict[int, tuple] = {}

    @property
    def free(self) -> int:
        """Blocks that can be allocated, readable unused ones included."""
        return len(self._free)

    def open(self, tokens: Iterable[int]) -> tuple[Text, int]:
        """Allocates a text that begins with these tokens.

        Returns:
          The text, and how many of its tokens are in the cache already. At least one
          is not, because somebody has to compute what comes next.
        Raises:
          OutOfBlocks: there are not enough blocks; nothing has changed then.
        """
        tokens = [int(token) for token in tokens]
        shared = self._shared(tokens)
        unused = sum(self.users[block] == 0 for block in shared)
        count = -(-len(tokens) // self.size) - len(shared)
        if count > self.free - unused:
            raise OutOfBlocks(
                f"{len(tokens)} tokens need {count} blocks of {self.size}, and "
                f"{self.free - unused} are free."
            )
        for block in shared:
            self._use(block)
        blocks = shared + [self._take() for _ in range(count)]
        return Text(tokens, blocks), len(shared) * self.size

    def append(self, text: Text, token: int) -> Place:
        """The place of a text's next token; copies a block that others share.

        Raises:
          OutOfBlocks: a new block is needed and none is free; nothing has changed then.
        """
        offset = len(text.tokens) % self.size
        copy_of = None
        if offset == 0:
            text.blocks.append(self._take())
        elif self.users[text.blocks[-1]] > 1:
            copy_of, text.blocks[-1] = text.blocks[-1], self._take()
            self._leave(copy_of)
        text.tokens.append(int(token))
        return Place(text.blocks[-1], offset, copy_of)

    def fork(self, text: Text) -> Text:
        """Another text with the same tokens; takes no block until one of them grows."""
        for block in text.blocks:
            self._use(block)
        return Text(list(text.tokens), list(text.blocks))

    def written(self, text: Text, count: int) -> None:
        """Notes that the first `count` tokens' keys and values are in the cache.

        From now on other texts find the full blocks among them.
        """
        for i, block in enumerate(text.blocks[: count // self.size]):
            if block not in self._beginning:
                beginning = tuple(text.tokens[: (i + 1) * self.size])
                # Another text may have computed the same.
                if self._block_of.setdefault(beginning, block) == block:
                    self._beginning[block] = beginning

    def close(self, text: Text) -> None:
        """Gives a text's blocks back, the last first: beginnings stay longest."""
        for block in reversed(text.blocks):
            self._leave(block)
        text.blocks = []

    def _shared(self, tokens):
        """The blocks that contain the tokens' beginning, never all of the tokens."""
        blocks = []
        for end in range(self.size, len(tokens), self.size):
            if (block := self._block_of.get(tuple(tokens[:end]))) is None:
                break
            blocks.append(block)
        return blocks

    def _take(self):
        """An empty block, or the readable one that was unused for longest."""
        if not self._free:
            raise OutOfBlocks(f"All {len(self.users)} blocks are in use.")
        block, _ = self._free.popitem(last=False)
        if block in self._beginning:
            del self._block_of[self._beginning.pop(block)]
        self.users[block] = 1
        return block

    def _use(self, block):
        self._free.pop(block, None)
        self.users[block] += 1

    def _leave(self, block):
        self.users[block] -= 1
        if self.users[block] == 0:
            self._free[block] = None
            if block not in self._beginning:
                self._free.move_to_end(block, last=False)


class Pages(NamedTuple):
    """The memory of all blocks, and of one more, where padding is written.

    keys: (L, N+1, K, H, S). values: (L, N+1, K, S, H).
    """

    keys: jax.Array
    values: jax.Array

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.keys.nbytes + self.values.nbytes


def empty_pages(model, blocks: int, size: int) -> Pages:
    """Memory for so many blocks of `size` tokens, in the model's activations' dtype.

    Raises:
      ValueError: a Gemma 4, whose layers' keys have two shapes.
    """
    c = model.config
    if c.gemma4:
        raise ValueError(
            "Blocks store keys of one shape, and the layers of Gemma 4 have two: serve "
            "it with another engine, or answer with helpers.generation."
        )
    shape = (c.layers, blocks + 1, c.kv_heads, c.head_dim, size)
    keys = jnp.zeros(shape, model.activations)
    return Pages(keys, keys.swapaxes(3, 4))


@functools.partial(jit, static_argnames=("graph",), donate_argnames=("pages",))
def read(graph, weights, pages, tokens_BT, mask_BT, table_BM, seen_B):
    """Reads new tokens of several texts, and writes their keys and values into blocks.

    Args:
      graph, weights: of `nnx.split(model)`, a Transformer.
      pages: the memory; it is donated, go on with the one returned.
      tokens_BT, mask_BT: int32, right-padded; a text without a new token changes
        nothing, and its logits mean nothing.
      table_BM: int32, the blocks of each text in order; entries beyond its tokens
        are ignored.
      seen_B: int32, how many tokens of each text are in the cache already.
    Returns:
      (logits (B, V) after each text's last new token, the memory with them).
    """
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
def copied(pages: Pages, source: int, target: int) -> Pages:
    """The memory with one block copied, as `Place.copy_of` asks for."""
    return jax.tree.map(lambda x: x.at[:, target].set(x[:, source]), pages)
