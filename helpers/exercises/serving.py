"""Self-checks of notebook 12."""

import copy

import numpy as np

from helpers.exercises.check import Check, check_properties, leaves_alone

SIZE = 4  # tokens of a block


class _Played:
    """A cache played through: what each text wrote, and what its table reads back."""

    def __init__(self, fork, grow, blocks=12):
        self.fork_, self.grow_ = fork, grow
        self.users, self.free = [0] * blocks, list(range(blocks))
        self.memory = [[None] * SIZE for _ in range(blocks)]
        self.texts, self.tables = [[]], [[]]

    def fork(self, i):
        self.tables.append(self.fork_(self.tables[i], self.users))
        self.texts.append(list(self.texts[i]))

    def grow(self, i, token):
        table, length = self.tables[i], len(self.texts[i])
        copied = self.grow_(table, length, self.users, self.free)
        if copied is not None:
            self.memory[table[-1]] = list(self.memory[copied])
        self.memory[table[-1]][length % SIZE] = token
        self.texts[i].append(token)

    def read(self, i):
        places = [place for block in self.tables[i] for place in self.memory[block]]
        return places[: len(self.texts[i])]

    def is_right(self):
        """Whether every text reads its own tokens, and users are as many as tables."""
        held = [block for table in self.tables for block in table]
        fits = [len(t) == -(-len(x) // SIZE) for t, x in self.pairs()]
        return (
            all(self.read(i) == text for i, text in enumerate(self.texts))
            and self.users == [held.count(block) for block in range(len(self.users))]
            and sorted({*held, *self.free}) == list(range(len(self.users)))
            and len(self.free) == self.users.count(0)
            and all(fits)
        )

    def pairs(self):
        return zip(self.tables, self.texts, strict=True)


def check_fork(fork, grow) -> Check:
    """A block table's fork, and the place of a next token with copy-on-write."""

    def played(moves):
        game = _Played(fork, grow)
        for token, (kind, i) in enumerate(moves):
            game.fork(i) if kind == "fork" else game.grow(i, token)
            if not game.is_right():
                return None
        return game

    def begun(tokens, forks=0):
        return played([("grow", 0)] * tokens + [("fork", 0)] * forks)

    def blocks_used(game):
        return sum(count > 0 for count in game.users)

    def by_chance(seed):
        rng, texts, moves = np.random.default_rng(seed), 1, []
        for _ in range(22):
            if texts < 4 and rng.random() < 0.2:
                moves.append(("fork", int(rng.integers(texts))))
                texts += 1
            else:
                moves.append(("grow", int(rng.integers(texts))))
        return moves

    def both_write():
        game = played([("grow", 0)] * 6 + [("fork", 0), ("grow", 0), ("grow", 1)])
        return game is not None and game.tables[0][-1] != game.tables[1][-1]

    return check_properties(
        ("grow a text alone, block by block", lambda: begun(9) is not None),
        (
            "give a fork a table of its own, and note the second user of every block",
            lambda: (game := begun(6, 1)) and game.tables[0] is not game.tables[1],
        ),
        ("take no memory for a fork", lambda: blocks_used(begun(6, 5)) == 2),
        ("copy a shared block before one of its users writes", both_write),
        (
            "copy no block that nobody else uses, nor one that is full",
            lambda: (
                played([("grow", 0)] * 6 + [("fork", 0), ("grow", 0), ("grow", 1)])
                and blocks_used(played([("grow", 0)] * 8 + [("fork", 0), ("grow", 1)]))
                == 3
                and _copies(grow) == [None, None]
            ),
        ),
        (
            "let every text read its own words after any moves",
            lambda: all(played(by_chance(seed)) for seed in range(40)),
        ),
    )


def _copies(grow):
    """What a lone text copies when it grows within a block, and past a full one."""
    found = []
    for length, count in ((6, 2), (8, 2)):
        users, free = [1, 1, 0, 0], [2, 3]
        found.append(grow(list(range(count)), length, users, free))
    return found


def _pairs(count=30, words=6):
    """Distributions of target and drafter; some have words that are never said."""
    rng = np.random.default_rng(12)
    for i in range(count):
        p, q = rng.dirichlet(np.full(words, 0.6), 2)
        if i % 3 == 0:
            q = np.where(np.arange(words) == i % words, 0.0, q)
            q /= q.sum()
        if i % 3 == 1:
            p = np.where(np.arange(words) == i % words, 0.0, p)
            p /= p.sum()
        yield p, q


def check_refused(answer) -> Check:
    """From what a token is drawn when the drafted one was refused."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])

    def drawn(p, q):
        return np.asarray(answer(p.copy(), q.copy()), float)

    def comes_out(p, q):
        return np.minimum(p, q) + (1 - np.minimum(p, q).sum()) * drawn(p, q)

    def untouched():
        given = p.copy(), q.copy()
        answer(*given)
        return np.array_equal(given[0], p) and np.array_equal(given[1], q)

    return check_properties(
        ("give a probability for every word", lambda: drawn(p, q).shape == p.shape),
        ("add up to 1", lambda: np.isclose(drawn(p, q).sum(), 1)),
        ("never be negative", lambda: (drawn(p, q) >= 0).all()),
        (
            "never give again what was kept often enough",
            lambda: np.isclose(drawn(p, q)[2], 0),
        ),
        (
            "make what comes out distributed as p",
            lambda: all(np.allclose(comes_out(*pair), pair[0]) for pair in _pairs()),
        ),
        ("leave p and q as they are", untouched),
    )


def _tokens_a_second(acceptance, block, draft_cost, pass_cost):
    """Tokens for each unit of cost, by adding up the chances of every outcome."""
    kept = [acceptance**n * (1 - acceptance) for n in range(block)]
    tokens = sum((n + 1) * chance for n, chance in enumerate(kept))
    tokens += (block + 1) * acceptance**block
    return tokens / (block * draft_cost + pass_cost[block])


def _cases():
    """(acceptance, cost of a drafted token, costs of passes) of machines of all kinds.

    The best is better than the next by one in a thousand at least.
    """
    rng = np.random.default_rng(7)
    for acceptance in (0.0, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0):
        for draft in (0.0, 0.02, 0.15, 0.4):
            slope = rng.choice([0.0, 0.02, 0.1, 0.4])
            first, stairs = rng.choice([0.5, 1.0, 2.0]), rng.choice([1, 3, 8])
            # A wide pass is often as dear as the next one: chips compute in tiles.
            passes = [first * (1 + slope * -(-n // stairs)) for n in range(17)]
            speeds = sorted(
                _tokens_a_second(acceptance, n, draft, passes) for n in range(17)
            )
            if speeds[-1] > 1.001 * speeds[-2]:
                yield acceptance, draft, passes


def check_best_block(answer) -> Check:
    """How many tokens to draft, from acceptance and cost; 0 if none."""

    def best(acceptance, draft, passes):
        return int(
            np.argmax(
                [
                    _tokens_a_second(acceptance, n, draft, passes)
                    for n in range(len(passes))
                ]
            )
        )

    def right(*case):
        return answer(*copy.deepcopy(case)) == best(*case)

    free = [1.0] * 17
    return check_properties(
        ("draft nothing when nothing is kept", lambda: right(0.0, 0.1, free)),
        (
            "draft all there is room for when it is kept and free",
            lambda: right(1.0, 0.0, free),
        ),
        ("draft less where a drafted token costs more", lambda: right(0.8, 0.15, free)),
        (
            "draft less where a wider pass costs more",
            lambda: right(0.8, 0.02, [1 + 0.2 * n for n in range(17)]),
        ),
        ("be right for any machine", lambda: all(right(*case) for case in _cases())),
        (
            "look no further than the table of costs",
            lambda: right(0.95, 0.0, [1.0, 1.1, 1.2]),
        ),
        (
            "leave the table of costs as it is",
            lambda: leaves_alone(answer, 0.7, 0.1, [1.0, 1.3, 1.1]),
        ),
    )
