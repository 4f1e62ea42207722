"""Self-checks of notebook 06: a score, and the group's baseline."""

import itertools

import numpy as np

from helpers.exercises.check import Check, check_properties


def check_score(answer) -> Check:
    """The score of one two-token answer of the table policy."""
    rng = np.random.default_rng(6)
    thetas = rng.normal(0, 1.5, (2, 12)).astype(np.float32)
    pairs = list(itertools.product(range(3), repeat=2))

    def score(theta, pair):
        """The drawn token minus the softmax, in the two rows of the answer."""
        rows = np.zeros((4, 3))
        for row, token in ((0, pair[0]), (1 + pair[0], pair[1])):
            p = np.exp(theta.reshape(4, 3)[row])
            rows[row] = np.eye(3)[token] - p / p.sum()
        return rows.ravel()

    def rows():
        return np.asarray(answer(thetas[0].copy(), (1, 2))).reshape(4, 3)

    properties = {
        "be 0 for the second-token logits of first tokens that were not drawn": (
            lambda: not rows()[[1, 3]].any()
        ),
        "push up the token that was drawn": lambda: rows()[0, 1] > 0,
        "have the right slope for every answer and any logits": (
            list(itertools.product(thetas, pairs))
        ),
    }
    return check_properties(properties, answer, score, 1e-4)


def check_correction(answer) -> Check:
    """The factor that makes the group mean's gradient unbiased."""
    properties = {
        "be right for groups of two, which can be added up by hand": [(2,)],
        "be right for larger groups": [(G,) for G in range(3, 65)],
    }
    return check_properties(properties, answer, lambda G: G / (G - 1), 1e-4)
