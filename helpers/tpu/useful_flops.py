"""The useful FLOPs of the course's programs, counted by hand: each product once.

What a program computes twice to save memory, or computes and throws away, is no use:
logits of prompts' tokens, scores of keys that a token may not see.
"""

from collections.abc import Iterable
from typing import NamedTuple


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
    Raises:
      ValueError: a Gemma 4, whose layers have several sizes.
    """
    if config.gemma4:
        raise ValueError("The FLOPs of Gemma 4's several kinds of layer: not counted.")
    c, texts = config, list(texts)
    query, key = c.heads * c.head_dim, c.kv_heads * c.head_dim
    shapes = [(c.width, query), *[(c.width, key)] * 2, (query, c.width)]
    shapes += [(c.width, c.ff)] * 2 + [(c.ff, c.width)]
    tokens = sum(count * own for count, _, own in texts)
    spans = [c.window if not c.is_global(i) else None for i in range(c.layers)]
    pairs = {
        span: sum(count * seen(before, own, span) for count, before, own in texts)
        for span in set(spans)
    }
    return Products(
        base=2 * tokens * c.layers * sum(rows * columns for rows, columns in shapes),
        head=2 * scored * c.width * c.vocab_size,
        adapters=2 * tokens * c.layers * rank * sum(map(sum, shapes)),
        attention=4 * query * sum(pairs[span] for span in spans),
    )


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

    Every patch sees every patch; the way to the decoder is a small rest, left out.
    """
    patches = vision.grid**2
    weights = vision.layers * (4 * vision.width**2 + 2 * vision.width * vision.ff)
    attention = vision.layers * 2 * patches * vision.width
    return 2 * images * patches * (weights + attention)
