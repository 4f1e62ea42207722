"""The useful FLOPs of the course's programs, counted by hand: each product once.

What a program computes twice to save memory, or computes and throws away, is no use:
logits of prompts' tokens, what they become after the last layer that makes keys, scores
of keys that a token may not see.
"""

from collections.abc import Iterable
from typing import NamedTuple

from helpers.model.families import SHARING
from helpers.model.gemma4 import config_of
from helpers.model.vision_config import Gemma4VisionConfig


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
