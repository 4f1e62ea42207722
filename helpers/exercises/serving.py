"""Self-checks of notebook 12: block tables, and the word after a refused one."""

import numpy as np

from helpers.exercises.check import Check, check_properties

SIZE, BLOCKS = 4, 12  # tokens of a block; blocks of the cache


class _Cache:
    """A small cache that a learner's fork and grow manage, and what it should hold."""

    def __init__(self, fork, grow):
        self._fork, self._grow = fork, grow
        self.users, self.free = [0] * BLOCKS, list(range(BLOCKS))
        self.memory = [[None] * SIZE for _ in range(BLOCKS)]
        self.texts, self.tables, self.copies = [[]], [[]], 0

    def fork(self, i):
        self.tables.append(self._fork(self.tables[i], self.users))
        self.texts.append(list(self.texts[i]))

    def grow(self, i, token):
        table, length = self.tables[i], len(self.texts[i])
        copied = self._grow(table, length, self.users, self.free)
        if copied is not None:
            self.memory[table[-1]] = list(self.memory[copied])
            self.copies += 1
        self.memory[table[-1]][length % SIZE] = token
        self.texts[i].append(token)

    def is_right(self):
        """Whether every text reads its tokens, and users are as many as tables."""
        for table, text in zip(self.tables, self.texts, strict=True):
            tokens = [token for block in table for token in self.memory[block]]
            if len(table) != -(-len(text) // SIZE) or tokens[: len(text)] != text:
                return False
        listed = [block for table in self.tables for block in table]
        unused = [block for block in range(BLOCKS) if block not in listed]
        counts = [listed.count(block) for block in range(BLOCKS)]
        return self.users == counts and sorted(self.free) == unused


def check_fork(fork, grow) -> Check:
    """Exercise 1: a fork of a block table, and room for a token with copy-on-write."""

    def run(moves):
        """The cache after these moves, or None once it is wrong."""
        cache = _Cache(fork, grow)
        for token, (kind, i) in enumerate(moves):
            cache.fork(i) if kind == "fork" else cache.grow(i, token)
            if not cache.is_right():
                return None
        return cache

    def copies(tokens, *moves):
        """Copies made by these moves after a text of some tokens; None if wrong."""
        cache = run([("grow", 0)] * tokens + list(moves))
        return cache and cache.copies

    def random_moves(seed):
        rng, texts, moves = np.random.default_rng(seed), 1, []
        for _ in range(22):
            forks = texts < 4 and rng.random() < 0.2
            moves.append(("fork" if forks else "grow", int(rng.integers(texts))))
            texts += forks
        return moves

    properties = {
        "grow a text alone, block by block": lambda: copies(9) == 0,
        "take no memory for a fork, give it a table of its own, and note the second "
        "users": lambda: copies(8, ("fork", 0), ("grow", 1)) == 0,
        "copy a shared block before one of its users writes, and no other": lambda: (
            copies(6, ("fork", 0), ("grow", 0), ("grow", 1)) == 1
        ),
        "let every text read its own words after any moves": lambda: all(
            run(random_moves(seed)) for seed in range(40)
        ),
    }
    return check_properties(properties)


def check_refused(answer) -> Check:
    """Exercise 2: from what a token is drawn when the drafted one was refused."""
    rng = np.random.default_rng(12)
    pairs = []
    for i in range(30):
        table = rng.dirichlet(np.full(6, 0.6), 2)
        if i % 3 < 2:  # a word of probability 0 in one of the two
            table[i % 3, i % 6] = 0
        pairs.append(tuple(table / table.sum(axis=1, keepdims=True)))

    def comes_out(p, q):
        """The distribution of accepted and replaced words together."""
        accepted, refused = np.minimum(p, q), 1 - np.minimum(p, q).sum()
        return accepted + refused * np.asarray(answer(p, q), float)

    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    properties = {
        "add up to 1": lambda: np.isclose(sum(answer(p.copy(), q.copy())), 1),
        "give no word that came often enough": [(p, q)],
        "make what comes out distributed as p": pairs,
    }
    return check_properties(properties, comes_out, lambda p, q: p, 1e-4)
