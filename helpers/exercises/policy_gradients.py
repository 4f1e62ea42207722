"""Self-checks of notebook 06: a score, the group's baseline, the clip, and a KL."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties

TOKENS = [(1.5, +1), (1.5, -1), (0.6, +1), (0.6, -1), (1.1, +1), (1.0, -1)]


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


def check_silent(answer) -> Check:
    """Which tokens the clip has switched off."""
    silent = {0, 3}  # of TOKENS: above 1.28 and good, below 0.8 and bad
    properties = {
        "name somebody: the clip has silenced some": lambda: len(answer) > 0,
        "leave out tokens whose ratio is inside the band": lambda: (
            not any(0.8 < TOKENS[i][0] < 1.28 for i in answer)
        ),
        "leave out tokens that are pushed back": lambda: set(answer) <= silent,
        "name all that are silent": lambda: set(answer) == silent,
    }
    return check_properties(properties)


def check_kl_for_gradient(answer) -> Check:
    """An expression whose mean gradient is that of KL(p || q)."""
    rng = np.random.default_rng(6)
    cases = [tuple(rng.normal(size=(2, n)).astype(np.float32)) for n in (4, 5)]

    @jax.grad
    def kl_slope(logits, other):
        log_p, log_q = jax.nn.log_softmax(logits), jax.nn.log_softmax(other)
        return jnp.exp(log_p) @ (log_p - log_q)

    def slope(logits, other):
        """The mean gradient over answers that are drawn from p."""
        p, log_q = jax.nn.softmax(logits), jax.nn.log_softmax(other)
        mean = jax.grad(lambda x: p @ answer(jax.nn.log_softmax(x), log_q))
        return np.asarray(mean(logits))

    def cosine(a, b):
        return np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)

    properties = {
        "have a mean gradient that is not 0": lambda: (
            np.abs(slope(*cases[0])).max() > 1e-4
        ),
        "pull along the gradient of KL(p || q), not along that of KL(q || p)": lambda: (
            cosine(slope(*cases[0]), kl_slope(*cases[0])) > 0.999
        ),
        "have a gradient of the right length, for any distributions": cases,
    }
    return check_properties(properties, slope, kl_slope, 1e-3)
