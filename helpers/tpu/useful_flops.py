"""The useful FLOPs of the course's programs, counted by hand: each product once.

What a program computes twice to save memory, or computes and throws away, is no use:
logits of prompts' tokens, scores of keys that a token may not see.
"""

from collections.abc import Iterable
from typing import NamedTuple

from helpers.model.gemma4 import config_of
from helpers.model.gemma4_config import SHARING
from helpers.model.gemma4_vision_config import Gemma4VisionConfig


class Products(NamedTuple):
    """FLOPs of a forward pass, two for each multiply-add.

    base: with the matrices of all layers. head: with the vocabulary's table. adapters:
    with their thin matrices. attention: queries with keys, and weights with values.
    """

    base: float
    head: float
    adapters: float
    attention: float


def forward_flops(config, texts: Iterable, scored: int, rank: int = 0) -> Products:
    """What a forward pass of a decoder multiplies.

    Args:
      texts: (how many, tokens before, tokens) of each kind: a token sees those before
        it in its text and itself, in a local layer no more than the window. That tokens
        of one picture see each other both ways is left out.
      scored: tokens whose successor is asked for; no others need the vocabulary.
      rank: of adapters beside all seven matrices; 0: there are none.
    """
    c, texts = config, list(texts)
    layers = [_shapes(c, i) for i in range(c.layers)]
    shapes = [shape for layer in layers for shape in layer]
    # Of Gemma 4 each layer's vectors of a token: made of it, gated and added.
    vectors = 3 * c.layers * c.width * c.gemma4.per_layer if c.gemma4 else 0
    tokens = sum(count * own for count, _, own in texts)
    spans = [c.window if not c.is_global(i) else None for i in range(c.layers)]
    pairs = {
        span: sum(count * seen(before, own, span) for count, before, own in texts)
        for span in set(spans)
    }
    return Products(
        base=2 * tokens * (sum(rows * columns for rows, columns in shapes) + vectors),
        head=2 * scored * c.width * c.vocab_size,
        adapters=2 * tokens * rank * sum(map(sum, shapes)),
        attention=4
        * sum(
            layer[0][1] * pairs[span] for layer, span in zip(layers, spans, strict=True)
        ),
    )


def _shapes(config, i):
    """(rows, columns) of layer i's matrices, that of queries first.

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
    shapes = [(c.width, query), *[(c.width, key)] * keys, (query, c.width)]
    return shapes + [(c.width, c.ff)] * 2 + [(c.ff, c.width)]


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
