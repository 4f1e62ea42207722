"""The roofline: what a machine can reach at most, given how much it computes per byte.

*Arithmetic intensity* is FLOPs per byte moved from memory. Below the machine's *ridge*
its memory is the limit, above it its arithmetic units are (Williams, Waterman and
Patterson, 2009). Numbers of a machine are published ones, or measured by `measure`.
"""

import dataclasses
import timeit
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from helpers.model.families import SHARING
from helpers.model.gemma4 import config_of
from helpers.model.vision_config import Gemma4VisionConfig
from helpers.tpu.topology import GENERATIONS


@dataclasses.dataclass(frozen=True)
class Machine:
    """One chip or computer.

    Attributes:
      name: as on its line in figures.
      flops: peak of matrix products, in FLOP/s.
      bandwidth: of its memory, in bytes/s.
    """

    name: str
    flops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP/byte, from which on arithmetic is the limit."""
        return self.flops / self.bandwidth

    def reach(self, intensity: float) -> float:
        """The most FLOP/s at this intensity: the roof, as high as it is there."""
        return min(self.flops, intensity * self.bandwidth)


def published(kind: str) -> Machine:
    """A TPU chip as its makers describe it, in bfloat16, such as "v5e"."""
    chip = GENERATIONS[kind]
    return Machine(f"{kind}, published", chip.tflops * 1e12, chip.gbytes * 1e9)


def matmul(B: int, D: int, F: int, size: int = 2) -> tuple[int, int]:
    """FLOPs and bytes of (B, D) @ (D, F): each matrix is moved once.

    Args:
      size: bytes of a number, 2 in bfloat16.
    """
    return 2 * B * D * F, size * (B * D + D * F + B * F)


def best_seconds(call, tries: int = 5) -> float:
    """The shortest of several calls, each waited for; a first one compiles."""
    ready = jax.block_until_ready
    ready(call())
    return min(timeit.repeat(lambda: ready(call()), number=1, repeat=tries))


def measure(dtype, side: int = 2048, numbers: int = 2**26) -> Machine:
    """The machine this runs on: its best large product, and its best stream.

    The stream adds 1 to `numbers` numbers in place: each is read once and written once.

    Args:
      dtype: of the product's numbers.
      side: of the square matrices.
      numbers: far more than fit into the caches.
    """
    square = jnp.ones((side, side), dtype)
    product = jax.jit(jnp.matmul)
    flops = 2 * side**3 / best_seconds(lambda: product(square, square))
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    numbers_in_place = [jnp.zeros(numbers, jnp.float32)]

    def stream():
        numbers_in_place.append(add(numbers_in_place.pop()))
        return numbers_in_place[0]

    bandwidth = 2 * numbers_in_place[0].nbytes / best_seconds(stream)
    return Machine(f"this machine ({jax.devices()[0].device_kind})", flops, bandwidth)


class Products(NamedTuple):
    """FLOPs of a forward pass, two for each multiply-add.

    Attributes:
      base: of the matrices of all layers.
      head: of the vocabulary's table.
      adapters: of their thin matrices.
      attention: queries with keys, and weights with values.
    """

    base: float
    head: float
    adapters: float
    attention: float


class Texts(NamedTuple):
    """Texts of one kind.

    Attributes:
      number: how many there are.
      before: tokens that stand before, such as a prompt's.
      tokens: in each text.
      needed: how many of the last tokens are needed after the last layer; of the others
        only keys and values are. None: all.
    """

    number: int
    before: int
    tokens: int
    needed: int | None = None

    def end(self) -> "Texts":
        """The tokens that are needed, after all others."""
        needed = self.tokens if self.needed is None else self.needed
        return Texts(self.number, self.before + self.tokens - needed, needed)


def forward_flops(
    config, texts: Iterable[Texts], scored: int, rank: int = 0
) -> Products:
    """The useful FLOPs of a decoder's forward pass, counted by hand: each matmul once.

    What a program computes twice to save memory, or computes and throws away, is not
    useful. A token that is not needed ends at the last layer that makes keys: twenty
    layers earlier in Gemma 4's small models, at the end in others.

    Args:
      texts: a token sees those before it in its text and itself, in a local layer no
        more than the window. That tokens of a picture see each other both ways is left
        out.
      scored: tokens whose next token is scored; no others need the vocabulary.
      rank: of adapters beside all seven matrices; 0 for none.
    """
    c, texts = config, list(texts)
    last = c.layers - 1 - (c.gemma4.sharing if c.gemma4 else 0)
    base = thin = attention = 0
    for i in range(c.layers):
        keys, others = _shapes(c, i)
        through = texts if i < last else [text.end() for text in texts]
        for shapes, passing in ((keys, texts), (others, through)):
            tokens = sum(text.number * text.tokens for text in passing)
            base += tokens * sum(rows * columns for rows, columns in shapes)
            thin += tokens * sum(map(sum, shapes))
        if c.gemma4:  # per-layer vectors of a token are made, gated and added
            base += tokens * 3 * c.width * c.gemma4.per_layer
        window = None if c.is_global(i) else c.window
        attention += others[0][1] * sum(
            text.number * visible_pairs(text.before, text.tokens, window)
            for text in through
        )
    return Products(
        base=2 * base,
        head=2 * scored * c.width * c.vocab_size,
        adapters=2 * rank * thin,
        attention=4 * attention,
    )


def _shapes(config, i):
    """(rows, columns) of layer i's matrices: of keys and values; the others, q first.

    In Gemma 4, layers that share have none for keys and values, and full ones may have
    one for both.
    """
    c, keys = config, 2
    if config.gemma4:
        stack = config.gemma4.stack_of(i)
        c = config_of(config, stack)
        if stack.startswith(SHARING):
            keys = 0
        elif stack == "full" and config.gemma4.keys_are_values:
            keys = 1
    query, key = c.heads * c.head_dim, c.kv_heads * c.head_dim
    others = [(c.width, query), (query, c.width)]
    others += [(c.width, c.ff)] * 2 + [(c.ff, c.width)]
    return [(c.width, key)] * keys, others


def visible_pairs(before: int, tokens: int, window: int | None = None) -> int:
    """Pairs of a query and a key that it sees, for tokens that stand after `before`."""
    seen = np.arange(before, before + tokens) + 1
    return int(np.minimum(seen, window or seen).sum())


def update_flops(forward: Products, trains_base: bool) -> float:
    """A forward pass with its gradient.

    A matmul of two things that have a gradient needs two more of its size: adapters,
    attention, and the base if it is trained. With a frozen matrix it needs one.
    """
    weights = forward.base + forward.head
    both = forward.adapters + forward.attention
    return (3 if trains_base else 2) * weights + 3 * both


def vision_flops(vision, images: int) -> float:
    """FLOPs of encoding pictures: the tower's matmuls, and its attention.

    Every patch sees every patch, in Gemma 4 as many as its budget has room for. The
    projection to the decoder is small and left out.
    """
    c = vision
    if isinstance(vision, Gemma4VisionConfig):
        patches, heads = c.budget * c.pool**2, c.heads * c.head_dim
        weights = 2 * c.width * (heads + c.kv_heads * c.head_dim) + 3 * c.width * c.ff
    else:
        patches, heads = c.grid**2, c.width
        weights = 4 * c.width**2 + 2 * c.width * c.ff
    return 2 * images * patches * c.layers * (weights + 2 * patches * heads)
