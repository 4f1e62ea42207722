"""Self-checks of notebook 01: intensity, the turning batch, buckets, hops."""

import itertools
import math
from fractions import Fraction

import numpy as np

from helpers.exercises.check import Check, agrees, check_properties

RIDGE = 197e12 / 819e9  # of v5e, FLOP/byte


def check_intensity(answer) -> Check:
    """FLOPs per byte moved of (B, D) @ (D, F)."""
    cases = np.random.default_rng(1).integers(2, 99, (20, 4)).tolist()

    def intensity(B, D, F, size=2):
        return 2 * B * D * F / (size * (B * D + D * F + B * F))

    return check_properties(
        (
            "be close to 1 for one row in bfloat16: a weight is read for two FLOPs",
            lambda: abs(answer(1, 4096, 4096, 2) - 1) < 1e-3,
        ),
        (
            "halve when a number takes twice the bytes",
            lambda: math.isclose(answer(8, 32, 16, 2), 2 * answer(8, 32, 16, 4)),
        ),
        (
            "be 2 for B = D = F = 3 and 1 byte a number: 54 FLOPs, and each of the "
            "three matrices moved once",
            lambda: math.isclose(answer(3, 3, 3, 1), 2),
        ),
        (
            "be right for matrices of three different sizes, by default of 2 bytes a "
            "number",
            lambda: agrees(answer, intensity, [(8, 32, 16), *map(tuple, cases)], 1e-9),
        ),
    )


def check_turning_batch(answer) -> Check:
    """The first batch at which a product is no longer limited by memory."""
    rng = np.random.default_rng(2)
    shapes = rng.integers(200, 5000, (600, 2)).tolist()
    cases = [(D, F, float(rng.uniform(1, 300))) for D, F in shapes]
    cases += [(484, 484, RIDGE), (200, 200, 100.0), (1, 1, 0.75)]  # far, out of reach
    cases += [(8, 8, 2.0), (64, 64, 16.0), (1, 1, 0.25)]  # exactly at the ridge

    def turning(D, F, ridge):
        left = D * F - Fraction(ridge) * (D + F)
        return math.ceil(Fraction(ridge) * D * F / left) if left > 0 else None

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
        (
            "be None where no batch is large enough, as for 256 by 256",
            lambda: answer(256, 256, RIDGE) is None,
        ),
        (
            "be the first batch at the ridge or above, for any shape",
            lambda: agrees(answer, turning, cases, 0),
        ),
    )


def check_buckets(answer) -> Check:
    """The bucket lengths that make compiling and padding cheapest together."""
    rng = np.random.default_rng(3)
    cases = [_texts_and_prices(rng) for _ in range(40)]

    def seconds(buckets, lengths, compiling, token):
        padded = [min(size for size in buckets if size >= n) for n in lengths]
        return compiling * len(buckets) + token * sum(padded)

    def least(lengths, *prices):
        *others, longest = sorted(set(lengths))
        counts = range(len(others) + 1)
        ways = (way for n in counts for way in itertools.combinations(others, n))
        return min(seconds([*way, longest], lengths, *prices) for way in ways)

    def spent(lengths, *prices):
        return seconds(list(answer(lengths, *prices)), lengths, *prices)

    def chosen(*case):
        return sorted(answer(*case))

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
            "count how many texts have a length, not only that it occurs",
            lambda: chosen([20] * 30 + [24, 80], 15, 0.2) == [20, 80],
        ),
        (
            "take the least time, for any texts and prices",
            lambda: agrees(spent, least, cases, 1e-9),
        ),
    )


def _texts_and_prices(rng):
    """The lengths of some texts, seconds of compiling, seconds of a token."""
    kinds = rng.choice(np.arange(8, 400), rng.integers(3, 8), replace=False)
    lengths = [*kinds.tolist(), *rng.choice(kinds, 20).tolist()]
    token = float(rng.choice([1e-3, 1e-2, 0.1]))
    return lengths, token * sum(lengths) * float(rng.uniform(0.02, 0.2)), token


def check_hops(answer) -> Check:
    """Links on the shortest way between two chips, with and without rings."""
    rng = np.random.default_rng(4)
    cases = []
    for _ in range(200):
        shape = rng.integers(1, 9, 3)
        a, b = (tuple(rng.integers(0, shape).tolist()) for _ in range(2))
        rings = tuple((rng.random(3) < 0.5).tolist())
        cases.append((a, b, tuple(shape.tolist()), rings))

    def hops(a, b, shape, rings):
        apart = [abs(x - y) for x, y in zip(a, b, strict=True)]
        axes = zip(apart, shape, rings, strict=True)
        return sum(min(d, size - d) if ring else d for d, size, ring in axes)

    flat, none = (4, 8, 1), (False, False, False)
    torus = (16, 16, 1), (True, True, False)
    return check_properties(
        (
            "be 0 from a chip to itself, and 1 to a neighbour",
            lambda: (
                [answer((x, 2, 0), (1, 2, 0), flat, none) for x in (1, 0)] == [0, 1]
            ),
        ),
        ("add up the axes", lambda: answer((0, 0, 0), (3, 7, 0), flat, none) == 10),
        (
            "go round a ring where that is shorter",
            lambda: answer((0, 0, 0), (15, 0, 0), *torus) == 1,
        ),
        (
            "go straight where that is shorter",
            lambda: answer((0, 0, 0), (5, 0, 0), *torus) == 5,
        ),
        (
            "be right between any two chips, with rings along some axes",
            lambda: agrees(answer, hops, cases, 0),
        ),
    )
