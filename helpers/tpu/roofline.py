"""The roofline: what a machine can reach at most, given how much it computes per byte.

*Arithmetic intensity* is FLOPs per byte moved from memory. Below the machine's *ridge*
its memory is the limit, above it its arithmetic units are (Williams, Waterman and
Patterson, 2009). Numbers of a machine are published ones, or measured by `measure`.
"""

import dataclasses
import time
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp

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
    jax.block_until_ready(call())
    seconds = []
    for _ in range(tries):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(dtype, side: int = 2048, numbers: int = 2**26) -> Machine:
    """The machine this runs on: its best large product, and its best stream.

    The stream adds 1 to `numbers` numbers in place: each is read once and written once.

    Args:
      dtype: of the product's numbers.
      side: of the square matrices.
      numbers: far more than the caches hold.
    """
    square = jnp.ones((side, side), dtype)
    product = jax.jit(jnp.matmul)
    flops = 2 * side**3 / best_seconds(lambda: product(square, square))
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    held = [jnp.zeros(numbers, jnp.float32)]

    def stream():
        held.append(add(held.pop()))
        return held[0]

    bandwidth = 2 * held[0].nbytes / best_seconds(stream)
    return Machine(f"this machine ({jax.devices()[0].device_kind})", flops, bandwidth)


class Products(NamedTuple):
    """FLOPs of a forward pass, two for each multiply-add.

    base: with the matrices of all layers. head: with the vocabulary's table. adapters:
    with their thin matrices. attention: queries with keys, and weights with values.
    """

    base: float
    head: float
    adapters: float
    attention: float


class Texts(NamedTuple):
    """Texts of one kind, each of `own` tokens that stand after `before` others.

    many: how many there are.
    asked: the last so many of its tokens are asked what follows, or what they became;
      None: all. Of the others nothing is used but keys and values.
    """

    many: int
    before: int
    own: int
    asked: int | None = None

    def end(self) -> "Texts":
        """What is asked of them, after all the rest."""
        asked = self.own if self.asked is None else self.asked
        return Texts(self.many, self.before + self.own - asked, asked)


def forward_flops(
    config, texts: Iterable[Texts], scored: int, rank: int = 0
) -> Products:
    """What a forward pass of a decoder multiplies.

    A token that is not asked ends at the last layer that makes keys: of Gemma 4's small
    models some twenty more follow, of the others none.

    Args:
      texts: a token sees those before it in its text and itself, in a local layer no
        more than the window. That tokens of one picture see each other both ways is
        left out.
      scored: tokens whose successor is asked for; no others need the vocabulary.
      rank: of adapters beside all seven matrices; 0: there are none.
    """
    c, texts = config, list(texts)
    last = c.layers - 1 - (c.gemma4.sharing if c.gemma4 else 0)
    base = thin = attention = 0
    for i in range(c.layers):
        keys, others = _shapes(c, i)
        through = texts if i < last else [one.end() for one in texts]
        for shapes, passing in ((keys, texts), (others, through)):
            tokens = sum(one.many * one.own for one in passing)
            base += tokens * sum(rows * columns for rows, columns in shapes)
            thin += tokens * sum(map(sum, shapes))
            # Of Gemma 4 a layer's vectors of a token: made of it, gated and added.
            if shapes is others and c.gemma4:
                base += tokens * 3 * c.width * c.gemma4.per_layer
        span = None if c.is_global(i) else c.window
        pairs = sum(one.many * seen(one.before, one.own, span) for one in through)
        attention += others[0][1] * pairs
    return Products(
        base=2 * base,
        head=2 * scored * c.width * c.vocab_size,
        adapters=2 * rank * thin,
        attention=4 * attention,
    )


def _shapes(config, i):
    """(rows, columns) of layer i's matrices: of keys and values; the others, q first.

    Of Gemma 4 the layers that share have none for keys and values, and full ones may
    have one for both.
    """
    c, own, keys = config, config.gemma4, 2
    if own:
        stack = own.stack_of(i)
        c = config_of(config, stack)
        if stack.startswith(SHARING):
            keys = 0
        elif stack == "full" and own.keys_are_values:
            keys = 1
    query, key = c.heads * c.head_dim, c.kv_heads * c.head_dim
    others = [(c.width, query), (query, c.width)]
    others += [(c.width, c.ff)] * 2 + [(c.ff, c.width)]
    return [(c.width, key)] * keys, others


def seen(before: int, own: int, window: int | None = None) -> int:
    """Pairs of a query and a key it sees: of `own` tokens that stand after `before`."""
    last = before + own
    if window is None:
        return (last * (last + 1) - before * (before + 1)) // 2
    short = max(0, min(last, window) - before)  # they see all before them
    return seen(before, short) + (own - short) * window


def update_flops(forward: Products, trains_base: bool) -> float:
    """A forward pass with its gradient.

    A product of two things that have a gradient needs two more of its size: adapters',
    attention's, and the base's if it is trained. Beside a frozen matrix it is one.
    """
    weights = forward.base + forward.head
    both = forward.adapters + forward.attention
    return (3 if trains_base else 2) * weights + 3 * both


def vision_flops(vision, images: int) -> float:
    """FLOPs of encoding so many pictures: the tower's products, and its attention.

    Every patch sees every patch, of Gemma 4 all that its budget has room for; the way
    to the decoder is a small rest, left out.
    """
    c = vision
    if isinstance(vision, Gemma4VisionConfig):
        patches, heads = c.budget * c.pool**2, c.heads * c.head_dim
        weights = 2 * c.width * (heads + c.kv_heads * c.head_dim) + 3 * c.width * c.ff
    else:
        patches, heads = c.grid**2, c.width
        weights = 4 * c.width**2 + 2 * c.width * c.ff
    return 2 * images * patches * c.layers * (weights + 2 * patches * heads)
