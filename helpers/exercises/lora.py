"""Self-checks of notebook 04b: a merged adapter, and a block stored in 4 bits."""

import numpy as np

from helpers.exercises.check import Check, check_properties
from helpers.model.quantized import LEVELS


def check_merge(answer) -> Check:
    """The one matrix that does what a frozen one and its adapter do."""
    rng = np.random.default_rng(4)

    def case(rows, columns, rank, alpha):
        shapes = (rows, columns), (rows, rank), (rank, columns)
        return *(rng.normal(size=shape) for shape in shapes), alpha

    def merged(W, A, B, alpha):
        return W + alpha * (A @ B) / len(B)

    W, A, B, alpha = case(6, 5, 3, 8)
    many = [case(*rng.integers(2, 9, 3), alpha) for alpha in (1, 2.5, 16, 32)]
    properties = {
        "be W where B is zero": [(W, A, 0 * B, alpha)],
        "add A B where alpha equals the rank": [case(6, 5, 4, 4)],
        "divide alpha by the rank": [case(6, 5, 4, 2)],
        "be right for any shapes": many,
    }
    return check_properties(properties, answer, merged, 1e-6)


def check_store(answer) -> Check:
    """A block of numbers as codes of levels, and their scale."""
    rng, nf4 = np.random.default_rng(64), np.array(LEVELS)

    def stored(block, levels):
        scale = max(abs(number) for number in block)
        gaps = [[abs(number / scale - level) for level in levels] for number in block]
        return [row.index(min(row)) for row in gaps], scale

    blocks = [(rng.normal(size=64) * size, nf4) for size in (0.02, 1, 30)]
    others = [(rng.normal(size=9), np.sort(rng.uniform(-1, 1, 5))) for _ in range(9)]
    properties = {
        "return the largest absolute value as scale": [(np.array([0.5, -2, 1]), nf4)],
        "choose the nearest level, above or below": [(np.array([1, 0.41, 0.36]), nf4)],
        "be right for any block and levels": blocks + others,
    }
    return check_properties(properties, answer, stored, 1e-9)
