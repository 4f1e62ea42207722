"""Self-checks of notebook 12: block tables, and the token after a rejected one."""

import numpy as np

from helpers.exercises.check import Check, check_properties

SIZE, BLOCKS = 4, 12  # tokens of a block; blocks of the cache


def check_fork(fork, grow) -> Check:
    """Exercise 1: a fork of a block table, and room for a token with copy-on-write."""

    def right(*moves):
        """Whether a cache with the learner's fork and grow is right after each move."""
        cache, tables, texts = _Cache(), [[]], [[]]
        for token, (kind, i) in enumerate(moves):
            table, text = tables[i], texts[i]
            if kind == "fork":
                tables.append(fork(table, cache.users))
                texts.append(list(text))
            else:
                shared = len(text) % SIZE > 0 and cache.users[table[-1]] > 1
                copied = grow(table, len(text), cache.users, cache.free)
                if shared != (copied is not None):
                    return False
                if shared:
                    cache.memory[table[-1]] = list(cache.memory[copied])
                cache.memory[table[-1]][len(text) % SIZE] = token
                text.append(token)
            if not cache.holds(tables, texts):
                return False
        return True

    def random_moves(seed):
        rng, texts, moves = np.random.default_rng(seed), 1, []
        for _ in range(22):
            forks = texts < 4 and rng.random() < 0.2
            moves.append(("fork" if forks else "grow", int(rng.integers(texts))))
            texts += forks
        return moves

    one, other, two = ("grow", 0), ("grow", 1), ("fork", 0)
    properties = {
        "grow a text alone, block by block": lambda: right(*[one] * 9),
        "take no memory for a fork, give it a table of its own, and note the second "
        "users": lambda: right(*[one] * 8, two, other),
        "copy a shared block before one of its users writes, and no other": lambda: (
            right(*[one] * 6, two, one, other)
        ),
        "let every text read its own tokens after any moves": lambda: all(
            right(*random_moves(seed)) for seed in range(40)
        ),
    }
    return check_properties(properties)


class _Cache:
    """A small cache: users of each block, free blocks, and what is written in them."""

    def __init__(self):
        self.users, self.free = [0] * BLOCKS, list(range(BLOCKS))
        self.memory = [[None] * SIZE for _ in range(BLOCKS)]

    def holds(self, tables, texts):
        """Whether every text reads its tokens, and users are as many as tables."""
        for table, text in zip(tables, texts, strict=True):
            tokens = [token for block in table for token in self.memory[block]]
            if len(table) != -(-len(text) // SIZE) or tokens[: len(text)] != text:
                return False
        listed = [block for table in tables for block in table]
        unused = [block for block in range(BLOCKS) if block not in listed]
        counts = [listed.count(block) for block in range(BLOCKS)]
        return self.users == counts and sorted(self.free) == unused


def check_rejected(answer) -> Check:
    """Exercise 2: what a token is drawn from when the drafted one was rejected."""
    rng = np.random.default_rng(12)
    pairs = []
    for i in range(30):
        table = rng.dirichlet(np.full(6, 0.6), 2)
        if i % 3 < 2:  # a token of probability 0 in one of the two
            table[i % 3, i % 6] = 0
        pairs.append(tuple(table / table.sum(axis=1, keepdims=True)))

    def comes_out(p, q):
        """The distribution of accepted and replaced tokens together."""
        accepted, rejected = np.minimum(p, q), 1 - np.minimum(p, q).sum()
        return accepted + rejected * np.asarray(answer(p, q), float)

    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    properties = {
        "add up to 1": lambda: np.isclose(sum(answer(p.copy(), q.copy())), 1),
        "give no token that came often enough": [(p, q)],
        "make what comes out distributed as p": pairs,
    }
    return check_properties(properties, comes_out, lambda p, q: p, 1e-4)
