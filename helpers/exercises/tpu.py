"""Self-checks of notebook 01: arithmetic intensity, and where memory stops limiting."""

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
    """The first batch at which a matmul is no longer limited by memory."""
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
