"""Self-checks of notebook 11."""

import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, filled, judge, whole

_P = jnp.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
_Q = jnp.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])


def _rows():
    """Two tables of probabilities, 4 rows of 4: one axis is not told by its size."""
    rng = np.random.default_rng(11)
    return rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(4), 4)


def _kl(p, q):
    return (p * (np.log(p) - np.log(q))).sum(axis=-1)


def check_reverse_kl(answer) -> Check:
    """KL(student, teacher) of rows of log-probabilities."""
    student, teacher = jnp.log(_P), jnp.log(_Q)
    p, q = _rows()

    def value():
        return np.asarray(answer(student, teacher))

    return judge(
        ("give one number per row", lambda: value().shape == (2,)),
        ("be 0 where both agree", lambda: abs(value()[1]) < 1e-6),
        ("be positive where they differ", lambda: value()[0] > 0),
        (
            "average under the student, not under the teacher",
            lambda: np.isclose(value()[0], 0.0993, atol=1e-3),
        ),
        (
            "be right for other rows as well",
            lambda: np.allclose(
                answer(jnp.log(p), jnp.log(q)), _kl(p, q), rtol=1e-3, atol=1e-5
            ),
        ),
    )


def check_log_probabilities(answer) -> Check:
    """A prediction: how many numbers the exact KL looks at."""
    return judge(
        ("be filled in", filled(answer, what="a whole number")),
        ("be a whole number above 0", lambda: whole(answer) and answer > 0),
        ("count all answers of all questions", lambda: answer % (32 * 4) == 0),
        ("count every token of an answer", lambda: answer % 64 == 0),
        ("count the whole vocabulary at each token", lambda: answer % 673 == 0),
        ("count each of them once", lambda: answer == 673 * 8192),
    )


def check_js_divergence(answer) -> Check:
    """Symmetric, bounded by log 2, zero where both agree."""
    sure = jnp.array([[1 - 1e-6, 1e-6]])
    p, q = _rows()
    truth = (_kl(p, (p + q) / 2) + _kl(q, (p + q) / 2)) / 2

    def value(p, q):
        return np.asarray(answer(p, q))

    return judge(
        ("give one number per row", lambda: value(_P, _Q).shape == (2,)),
        ("be 0 where both agree", lambda: abs(value(_P, _Q)[1]) < 1e-6),
        ("be symmetric", lambda: np.allclose(value(_P, _Q), value(_Q, _P))),
        (
            "stay at most log 2, however far apart they are",
            lambda: 0.6 < value(sure, sure[:, ::-1])[0] <= np.log(2) + 1e-6,
        ),
        (
            "compare both with their mixture",
            lambda: np.isclose(value(_P, _Q)[0], 0.0264, atol=1e-3),
        ),
        (
            "be right for other rows as well",
            lambda: np.allclose(
                value(jnp.asarray(p), jnp.asarray(q)), truth, rtol=1e-3, atol=1e-5
            ),
        ),
    )
