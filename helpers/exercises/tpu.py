"""Self-checks of notebook 01: intensity, the turning batch, buckets, hops."""

import collections
import itertools

import numpy as np

from helpers.exercises.check import Check, check_properties, leaves_alone

RIDGE = 197e12 / 819e9  # of v5e, FLOP/byte


def check_intensity(answer) -> Check:
    """FLOPs per byte moved of (B, D) @ (D, F)."""
    sizes = np.random.default_rng(1).integers(2, 99, (20, 4)).tolist()

    def truth(B, D, F, size):
        return 2 * B * D * F / (size * (B * D + D * F + B * F))

    return check_properties(
        (
            "be close to 1 for one row in bfloat16: a weight is read for two FLOPs",
            lambda: _near(answer(1, 4096, 4096, 2), 1, 1e-3),
        ),
        (
            "halve when a number takes twice the bytes",
            lambda: _near(answer(8, 32, 16, 2), 2 * answer(8, 32, 16, 4)),
        ),
        (
            "be 2 for B = D = F = 3 and 1 byte a number: 54 FLOPs, and each of the "
            "three matrices moved once",
            lambda: _near(answer(3, 3, 3, 1), 2),
        ),
        (
            "not care which of the two outer sizes is which",
            lambda: _near(answer(3, 50, 7, 2), answer(7, 50, 3, 2)),
        ),
        (
            "be right for matrices of three different sizes",
            lambda: all(_near(answer(*four), truth(*four)) for four in sizes),
        ),
        (
            "take numbers of 2 bytes where no size is given",
            lambda: _near(answer(8, 32, 16), truth(8, 32, 16, 2)),
        ),
    )


def check_turning_batch(answer) -> Check:
    """The first batch at which a product is no longer limited by memory."""
    return check_properties(
        (
            "be a whole number",
            lambda: answer(4096, 4096, RIDGE) == int(answer(4096, 4096, RIDGE)),
        ),
        (
            "come close to the ridge for very wide matrices",
            lambda: answer(10**6, 10**6, RIDGE) == 241,
        ),
        (
            "be larger for narrow matrices: their rows are moved, too",
            lambda: answer(1024, 1024, RIDGE) > answer(4096, 4096, RIDGE),
        ),
        ("round up", lambda: answer(4096, 4096, RIDGE) == _scanned(4096, 4096, RIDGE)),
        (
            "be None where no batch is large enough, as for 256 by 256",
            lambda: answer(256, 256, RIDGE) is None,
        ),
        (
            "be right for any shape and any ridge",
            lambda: all(
                answer(D, F, ridge) == _scanned(D, F, ridge)
                for D, F in ((896, 4864), (4864, 896), (640, 2048))
                for ridge in (20.0, 100.0, RIDGE)
            ),
        ),
        (
            "be None also where the ridge is only just out of reach",
            lambda: answer(200, 200, 100.0) is None and answer(1, 1, 0.75) is None,
        ),
        (
            "go on to thousands of rows, where it takes as many",
            lambda: answer(500, 500, RIDGE) == _scanned(500, 500, RIDGE) > 4096,
        ),
        (
            "go on to tens of thousands, as for 484 by 484",
            lambda: answer(484, 484, RIDGE) == 39_795,
        ),
        (
            "round up however little is over, in any of 600 shapes",
            lambda: _rounds_up(answer),
        ),
        (
            "take the batch that meets the ridge exactly, where there is one",
            # In powers of two, which every order of operations has exactly.
            lambda: (
                answer(8, 8, 2.0) == 4
                and answer(64, 64, 16.0) == 32
                and answer(1, 1, 0.25) == 1
            ),
        ),
    )


def _scanned(D, F, ridge):
    """The same, batch by batch."""
    for B in range(1, 10_000):
        if B * D * F / (B * D + D * F + B * F) >= ridge:
            return B


def _rounds_up(answer):
    """Every shape is asked exactly, with whole numbers; 1 in 100 is just above."""
    sizes = np.random.default_rng(2).integers(200, 5000, (600, 2)).tolist()
    for i, (D, F) in enumerate(sizes):
        above, below = (2 + i % 80) * D * F, D * F - (2 + i % 80) * (D + F)
        if above % below and answer(D, F, float(2 + i % 80)) != 1 + above // below:
            return False
    return True


def check_buckets(answer) -> Check:
    """The bucket lengths that make compiling and padding cheapest together."""
    rng = np.random.default_rng(3)
    cases = [_texts_and_prices(rng) for _ in range(40)]

    def chosen(*given):
        return sorted(answer(list(given[0]), *given[1:]))

    return check_properties(
        ("hold the longest text", lambda: max(chosen([20, 80, 40], 1, 1)) >= 80),
        (
            "be that one bucket where a program costs more than any padding",
            lambda: chosen([20, 80, 40], 1e6, 1) == [80],
        ),
        (
            "be a bucket for every length where padding is what costs",
            lambda: chosen([20, 80, 40, 20], 1e-6, 1) == [20, 40, 80],
        ),
        (
            "join the two lengths that lie near each other",
            lambda: chosen([20, 24, 80], 15, 1) == [24, 80],
        ),
        (
            "count how many texts have a length, not only that it occurs",
            lambda: chosen([20] * 30 + [24, 80], 15, 0.2) == [20, 80],
        ),
        (
            "weigh seconds against seconds: a dearer token, more buckets",
            lambda: chosen([20, 24, 80], 15, 9) == [20, 24, 80],
        ),
        (
            "take the least time, for any texts and prices",
            lambda: all(_cheapest(chosen(*case), *case) for case in cases),
        ),
        (
            "leave the list of lengths as it is",
            lambda: leaves_alone(answer, [30, 320, 20, 40], 1.0, 0.1),
        ),
    )


def _texts_and_prices(rng):
    """The lengths of some texts, seconds of compiling, seconds of a token."""
    kinds = rng.choice(np.arange(8, 400), rng.integers(3, 8), replace=False)
    lengths = [*kinds, *rng.choice(kinds, 20)]
    token = float(rng.choice([1e-3, 1e-2, 0.1]))
    compiling = token * float(sum(lengths)) * float(rng.uniform(0.02, 0.2))
    return [int(length) for length in lengths], compiling, token


def _cheapest(chosen, lengths, compiling, token):
    """Whether no other choice takes less time: the best of the last bucket's ends."""
    best = {0: 0.0}  # the least seconds for all texts up to this length
    for size in sorted(set(lengths)):
        best[size] = min(
            best[end] + compiling + token * size * sum(end < n <= size for n in lengths)
            for end in best
        )
    run = sum(min(size for size in chosen if size >= n) for n in lengths)
    spent = compiling * len(chosen) + token * run
    return spent <= best[max(lengths)] * (1 + 1e-9)


def check_hops(answer) -> Check:
    """Links on the shortest way between two chips, with and without rings."""

    def agrees(shape, rings, start=(0, 0, 0)):
        far = _walk(shape, rings, start)
        return all(answer(start, at, shape, rings) == far[at] for at in far)

    def agrees_anywhere():
        shape, starts = (3, 5, 4), ((0, 4, 1), (2, 1, 3), (1, 2, 2))
        rings = itertools.product((False, True), repeat=3)
        return all(agrees(shape, r, s) for r in rings for s in starts)

    flat, none = (4, 8, 1), (False, False, False)
    return check_properties(
        (
            "be 0 from a chip to itself",
            lambda: answer((1, 2, 0), (1, 2, 0), flat, none) == 0,
        ),
        ("be 1 to a neighbour", lambda: answer((0, 2, 0), (1, 2, 0), flat, none) == 1),
        ("add up the axes", lambda: answer((0, 0, 0), (3, 7, 0), flat, none) == 10),
        (
            "be the same both ways",
            lambda: answer((3, 7, 0), (0, 0, 0), flat, none) == 10,
        ),
        (
            "go round a ring where that is shorter",
            lambda: (
                answer((0, 0, 0), (15, 0, 0), (16, 16, 1), (True, True, False)) == 1
            ),
        ),
        (
            "go straight where that is shorter",
            lambda: answer((0, 0, 0), (5, 0, 0), (16, 16, 1), (True, True, False)) == 5,
        ),
        (
            "use rings only along axes that have them",
            lambda: agrees((4, 6, 1), (False, True, False)),
        ),
        ("be right in three dimensions", lambda: agrees((4, 4, 8), (True, True, True))),
        ("be right from every chip, not only from the first", agrees_anywhere),
    )


def _walk(shape, rings, start):
    """{place: links from the start}, by walking over all links."""
    far, queue = {start: 0}, collections.deque([start])
    while queue:
        here = queue.popleft()
        for axis, (size, ring) in enumerate(zip(shape, rings, strict=True)):
            for step in (-1, 1):
                there = list(here)
                there[axis] += step
                if ring:
                    there[axis] %= size
                there = tuple(there)
                if 0 <= there[axis] < size and there not in far:
                    far[there] = far[here] + 1
                    queue.append(there)
    return far


def _near(value, truth, tolerance=1e-9):
    return abs(value - truth) <= tolerance * abs(truth)
