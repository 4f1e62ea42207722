"""Notebook 13: bytes, collectives, gaps in a recording, a mean over chips."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp


def per_chip(shapes, chips, *, each=12, axes=slice(None), whole=True):
    """The solution of exercise 1, with its usual mistakes as switches."""
    total = 0
    for shape in shapes:
        cut = any(size % chips == 0 for size in shape[axes]) or not whole
        total += each * math.prod(shape) / (chips if cut else 1)
    return total


def with_mistake(**mistake):
    return lambda shapes, chips: per_chip(shapes, chips, **mistake)


def by_loops(shapes, chips):
    """A right alternative: the first axis that divides is cut."""
    total = 0
    for shape in shapes:
        parts = list(shape)
        for axis, size in enumerate(shape):
            if size % chips == 0:
                parts[axis] = size // chips
                break
        total += 4 * 3 * math.prod(parts)
    return total


gather = functools.partial(jax.lax.all_gather, tiled=True)
scatter = functools.partial(jax.lax.psum_scatter, tiled=True)


def layer(x, gate, up, down):
    return jax.nn.gelu(x @ gate) * (x @ up) @ down


def cut(x, gate, up, down, axis):
    return scatter(layer(gather(x, axis), gate, up, down), axis)


def all_rows(x, gate, up, down, axis):
    return jax.lax.psum(layer(gather(x, axis), gate, up, down), axis)


def no_collective(x, gate, up, down, axis):
    return layer(x, gate, up, down)


def weights_gathered(x, gate, up, down, axis):
    gate, up = (gather(w, axis, axis=1) for w in (gate, up))
    return layer(x, gate, up, gather(down, axis))


def twice_gathered(x, gate, up, down, axis):
    hidden = jax.nn.gelu(gather(x, axis) @ gate) * (gather(x, axis) @ up)
    return scatter(hidden @ down, axis)


def stacked(x, gate, up, down, axis):
    """A right alternative: gathered along a new axis, which is then folded."""
    rows = jax.lax.all_gather(x, axis).reshape(-1, x.shape[-1])
    return scatter(layer(rows, gate, up, down), axis)


def mean(over, under):
    return lambda losses, mask, axis: (
        over(losses, mask, axis) / under(losses, mask, axis)
    )


def total(losses, mask, axis):
    return jax.lax.psum((losses * mask).sum(), axis)


def tokens(losses, mask, axis):
    return jax.lax.psum(mask.sum(), axis)


def both_at_once(losses, mask, axis):
    """A right alternative: one collective of two numbers."""
    pair = jax.lax.psum(jnp.stack([jnp.vdot(losses, mask), mask.sum()]), axis)
    return pair[0] / pair[1]


def gap(operations, start, end, *, furthest=max, order=sorted):
    """The solution of exercise 3, with its usual mistakes as switches."""
    free, gaps = start, []
    for begin, seconds in order(operations):
        gaps.append((min(begin, end) - free, free))
        free = furthest(free, begin + seconds)
    gaps.append((end - free, free))
    length, begin = max(gaps)
    return begin, length


def not_before_the_first(operations, start, end):
    """Leaves out what is idle before the first operation."""
    inside = [x for x in sorted(operations) if sum(x) > start and x[0] < end]
    return gap(operations, inside[0][0] if inside else start, end)


def neighbours(operations, start, end):
    """From the end of one to the start of the next, as if one thread ran them all."""
    gaps = [(b[0] - sum(a), sum(a)) for a, b in itertools.pairwise(sorted(operations))]
    return max(gaps)[::-1]


def by_events(operations, start, end):
    """A right alternative: count how many are running, at every start and end."""
    marks = [(start, 0), (end, 0)]
    for begin, seconds in operations:
        low, high = max(begin, start), min(begin + seconds, end)
        marks += [(low, 1), (high, -1)] if low < high else []
    marks.sort(key=lambda mark: (mark[0], -mark[1]))
    running, best = 0, (start, 0.0)
    for (at, change), (then, _) in itertools.pairwise(marks):
        running += change
        if not running and then - at > best[1]:
            best = (at, then - at)
    return best


WRONG = {
    "13-1": {
        "one moment": with_mistake(each=8),
        "the first axis": with_mistake(axes=slice(1)),
        "the last axis": with_mistake(axes=slice(-1, None)),
        "everything is cut": with_mistake(whole=False),
    },
    "13-2": {
        "all rows": all_rows,
        "no collective": no_collective,
        "weights gathered": weights_gathered,
        "twice gathered": twice_gathered,
    },
    "13-3": {
        "the last one's end": functools.partial(gap, furthest=lambda free, end: end),
        "not sorted": functools.partial(gap, order=list),
        "not before the first": not_before_the_first,
        "neighbours": neighbours,
    },
    "13-4": {
        "a mean of means": lambda losses, mask, axis: jax.lax.pmean(
            (losses * mask).sum() / mask.sum(), axis
        ),
        "its own": lambda losses, mask, axis: (losses * mask).sum() / mask.sum(),
        "forgets the mask": mean(
            lambda losses, mask, axis: jax.lax.psum(losses.sum(), axis), tokens
        ),
        "a sum": total,
    },
}

RIGHT = {
    "13-1": {"loops": by_loops, "a generator": per_chip},
    "13-2": {"one after another": cut, "stacked": stacked},
    "13-3": {"by events": by_events, "a walk": gap},
    "13-4": {"both at once": both_at_once, "two sums": mean(total, tokens)},
}
