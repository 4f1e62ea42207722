"""Self-checks of notebook 01: intensity, the turning batch, buckets, hops."""

import itertools
import math
from fractions import Fraction

import numpy as np

from helpers.exercises.check import Check, check_properties

RIDGE = 197e12 / 819e9  # of v5e, FLOP/byte


def check_intensity(answer) -> Check:
    """FLOPs per byte moved of (B, D) @ (D, F)."""
    cases = np.random.default_rng(1).integers(2, 99, (20, 4)).tolist()

    def intensity(B, D, F, size=2):
        return 2 * B * D * F / (size * (B * D + D * F + B * F))

    properties = {
        "count 54 FLOPs for 3 × 3 × 3, and each matrix moved once": [(3, 3, 3, 1)],
        "halve when a number takes twice the bytes": [(8, 32, 16), (8, 32, 16, 4)],
        "be right for matrices of three different sizes": cases,
    }
    return check_properties(properties, answer, intensity, 1e-9)


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

    properties = {
        "be larger for narrow matrices: rows are moved, too": [(1024, 1024, RIDGE)],
        "be None where no batch is enough, as for 256 by 256": [(256, 256, RIDGE)],
        "round up, for any shape and ridge": cases,
    }
    return check_properties(properties, answer, turning)


def check_buckets(answer) -> Check:
    """The bucket lengths that make compiling and padding cheapest together."""
    rng, cases = np.random.default_rng(3), []
    for _ in range(40):
        kinds = rng.choice(np.arange(8, 400), rng.integers(3, 8), replace=False)
        lengths = [*kinds.tolist(), *rng.choice(kinds, 20).tolist()]
        token = float(rng.choice([1e-3, 1e-2, 0.1]))
        program = token * sum(lengths) * float(rng.uniform(0.02, 0.2))
        cases.append((lengths, program, token))

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

    properties = {
        "be one bucket where programs cost more": [([20, 80, 40], 1e6, 1)],
        "be one for each length if padding costs": [([20, 80, 40, 20], 1e-6, 1)],
        "take the least time, for any texts and prices": cases,
    }
    return check_properties(properties, spent, least, 1e-9)


def check_hops(answer) -> Check:
    """Links on the shortest way between two chips, with and without rings."""
    rng, cases = np.random.default_rng(4), []
    for _ in range(200):
        shape = rng.integers(1, 9, 3)
        a, b = (tuple(rng.integers(0, shape).tolist()) for _ in range(2))
        cases.append((a, b, tuple(shape.tolist()), tuple(rng.random(3) < 0.5)))

    def hops(a, b, shape, rings):
        apart = [abs(x - y) for x, y in zip(a, b, strict=True)]
        axes = zip(apart, shape, rings, strict=True)
        return sum(min(d, size - d) if ring else d for d, size, ring in axes)

    flat, torus = ((4, 8, 1), (False,) * 3), ((16, 16, 1), (True, True, False))
    properties = {
        "add up the axes": [((0, 0, 0), (3, 7, 0), *flat)],
        "go round a ring where that is shorter": [((0, 0, 0), (15, 5, 0), *torus)],
        "be right between any two chips, with rings along some axes": cases,
    }
    return check_properties(properties, answer, hops)
