"""Self-checks of notebook 12: block tables, refused tokens, the best block."""

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
        listed = [block for table in self.tables for block in table]
        blocks = list(range(BLOCKS))
        for table, text in zip(self.tables, self.texts, strict=True):
            tokens = [token for block in table for token in self.memory[block]]
            if len(table) != -(-len(text) // SIZE) or tokens[: len(text)] != text:
                return False
        return (
            self.users == [listed.count(block) for block in blocks]
            and sorted({*listed, *self.free}) == blocks
            and len(self.free) == self.users.count(0)
        )


def check_fork(fork, grow) -> Check:
    """A block table's fork, and the place of a next token with copy-on-write."""

    def run(moves):
        """The cache after these moves, or None once it is wrong."""
        cache = _Cache(fork, grow)
        for token, (kind, i) in enumerate(moves):
            cache.fork(i) if kind == "fork" else cache.grow(i, token)
            if not cache.is_right():
                return None
        return cache

    def grown(tokens, *moves):
        return run([("grow", 0)] * tokens + list(moves))

    def random_moves(seed):
        rng, texts, moves = np.random.default_rng(seed), 1, []
        for _ in range(22):
            forks = texts < 4 and rng.random() < 0.2
            moves.append(("fork" if forks else "grow", int(rng.integers(texts))))
            texts += forks
        return moves

    both_write = ("fork", 0), ("grow", 0), ("grow", 1)
    properties = {
        "grow a text alone, block by block": lambda: grown(9) and not grown(9).copies,
        "take no memory for a fork, give it a table of its own, and note the second "
        "users": lambda: (
            (cache := grown(6, ("fork", 0)))
            and cache.tables[0] is not cache.tables[1]
            and len(cache.free) == BLOCKS - 2
        ),
        "copy a shared block before one of its users writes, and no other": lambda: (
            grown(6, *both_write).copies == 1
            and grown(8, ("fork", 0), ("grow", 1)).copies == 0
        ),
        "let every text read its own words after any moves": lambda: all(
            run(random_moves(seed)) for seed in range(40)
        ),
    }
    return check_properties(properties)


def check_refused(answer) -> Check:
    """From what a token is drawn when the drafted one was refused."""
    rng = np.random.default_rng(12)
    pairs = []
    for i in range(30):
        table = rng.dirichlet(np.full(6, 0.6), 2)
        if i % 3 < 2:  # a word of probability 0 in one of the two
            table[i % 3, i % 6] = 0
        pairs.append(tuple(table / table.sum(1, keepdims=True)))

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


def check_best_block(answer) -> Check:
    """How many tokens to draft, from acceptance and cost; 0 if none."""
    rng = np.random.default_rng(7)
    free = [1.0] * 17
    cases = [(0.95, 0.0, [1.0, 1.1, 1.2])]
    for acceptance in (0.0, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0):
        for draft in (0.0, 0.02, 0.15, 0.4):
            slope, first = rng.choice([0.0, 0.02, 0.1, 0.4]), rng.choice([0.5, 1.0, 2])
            width = rng.choice([1, 3, 8])  # chips compute in tiles
            passes = [float(first * (1 + slope * -(-n // width))) for n in range(17)]
            speeds = np.sort(_speeds(acceptance, draft, passes))
            if speeds[-1] > 1.001 * speeds[-2]:  # there is one best block
                cases.append((acceptance, draft, passes))

    def best(*case):
        return int(np.argmax(_speeds(*case)))

    properties = {
        "draft nothing when nothing is accepted": [(0.0, 0.1, free)],
        "draft less where a drafted token costs more": [(0.8, 0.15, free)],
        "draft less where wide passes are dear": [
            (0.8, 0.02, [1 + 0.2 * n for n in range(17)])
        ],
        "be right for any machine, within its table of costs": cases,
    }
    return check_properties(properties, answer, best)


def _speeds(acceptance, draft_cost, pass_cost):
    """Tokens for each unit of cost, for blocks of 0, 1, 2, … drafted tokens."""
    speeds = []
    for block, cost in enumerate(pass_cost):
        chances = [acceptance**n * (1 - acceptance) for n in range(block)]
        tokens = sum((n + 1) * chance for n, chance in enumerate(chances))
        tokens += (block + 1) * acceptance**block
        speeds.append(tokens / (block * draft_cost + cost))
    return speeds
