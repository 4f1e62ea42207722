"""Notebook 12: block tables, what replaces a refused word, how many words to guess."""

import numpy as np


def forked(count=True, copy=True):
    """The first half of 12-1's solution, with its usual mistakes as switches."""

    def fork(table, users):
        for block in table if count else ():
            users[block] += 1
        return list(table) if copy else table

    return fork


def grown(shares=lambda count: count > 1):
    """The second half; a mistake replaces which blocks count as shared."""

    def grow(table, length, users, free):
        copied = None
        if length % 4 == 0:
            table.append(free.pop())
        elif shares(users[table[-1]]):
            copied = table[-1]
            users[copied] -= 1
            table[-1] = free.pop()
        else:
            return None
        users[table[-1]] = 1
        return copied

    return grow


def refused(more=lambda p, q: np.maximum(p - q, 0), scale=lambda x: x / x.sum()):
    """12-2's solution, with its parts exchanged."""
    return lambda p, q: scale(more(p, q))


def guesses(
    tokens=lambda a, n: sum(a**i for i in range(n + 1)),
    cost=lambda n, draft, passes: n * draft + passes[n],
):
    """12-3's solution, with its parts exchanged."""
    return lambda acceptance, draft_cost, pass_cost: max(
        range(len(pass_cost)),
        key=lambda n: tokens(acceptance, n) / cost(n, draft_cost, pass_cost),
    )


def by_closed_form(acceptance, draft_cost, pass_cost):
    n = np.arange(len(pass_cost))
    if acceptance == 1:
        tokens = n + 1
    else:
        tokens = (1 - acceptance ** (n + 1)) / (1 - acceptance)
    return int(np.argmax(tokens / (n * draft_cost + np.asarray(pass_cost))))


def by_index(table, length, users, free):
    """The slot computed from the length, tables written by index."""
    slot = length // 4
    if slot == len(table):
        block = free.pop(0)
        table.append(block)
        users[block] += 1
        return None
    old = table[slot]
    if users[old] == 1:
        return None
    block = table[slot] = free.pop(0)
    users[old], users[block] = users[old] - 1, users[block] + 1
    return old


WRONG = {
    "12-1": {
        "one list for both": (forked(copy=False), grown()),
        "users not counted": (forked(count=False), grown()),
        "written into a shared block": (forked(), grown(lambda count: False)),
        "always copied": (forked(), grown(lambda count: True)),
    },
    "12-2": {
        "the target's own": lambda p, q: p,
        "the difference": refused(scale=lambda x: x),
        "below zero": refused(more=lambda p, q: p - q),
        "the other way round": refused(more=lambda p, q: np.maximum(q - p, 0)),
    },
    "12-3": {
        "without the target's": guesses(
            tokens=lambda a, n: sum(a**i for i in range(1, n + 1))
        ),
        "each by itself": guesses(tokens=lambda a, n: 1 + a * n),
        "drafting for nothing": guesses(cost=lambda n, draft, passes: passes[n]),
        "passes of one width": guesses(
            cost=lambda n, draft, passes: n * draft + passes[0]
        ),
    },
}

RIGHT = {
    "12-1": {"by index": (forked(), by_index)},
    "12-2": {
        "clipped": lambda p, q: np.clip(p - q, 0, None) / (1 - np.minimum(p, q).sum())
    },
    "12-3": {"by the closed form": by_closed_form},
}
