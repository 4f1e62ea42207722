"""Self-checks of notebook 06: a score, the group's baseline, the clip, and a KL."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties, leaves_alone, whole
from helpers.losses.policy_gradient import policy_gradient_loss

TOKENS = [(1.5, +1), (1.5, -1), (0.6, +1), (0.6, -1), (1.1, +1), (1.0, -1)]


def check_score(answer) -> Check:
    """The score of one two-token answer of the table policy."""
    theta = np.array([0.3, -0.2, 0.9, *np.linspace(-1, 1, 9)], np.float32)
    other = np.random.default_rng(6).normal(0, 1.5, 12).astype(np.float32)
    pairs = [(a, b) for a in range(3) for b in range(3)]

    def agrees(part, theta=theta):
        return all(
            np.allclose(
                np.asarray(answer(theta.copy(), pair))[part],
                _slopes(tuple(theta.tolist()))[pair][part],
                rtol=0,
                atol=1e-4,
            )
            for pair in pairs
        )

    def other_rows_are_zero():
        got = np.asarray(answer(theta.copy(), (1, 2)))
        return not got[3:6].any() and not got[9:].any()

    return check_properties(
        (
            "be an array of shape (12,)",
            lambda: answer(theta.copy(), (0, 0)).shape == (12,),
        ),
        (
            "leave theta as it is",
            lambda: leaves_alone(answer, theta, (1, 1)),
        ),
        (
            "be 0 for the second-token logits of first tokens that were not drawn",
            other_rows_are_zero,
        ),
        (
            "add up to 0 over the logits of one softmax",
            lambda: abs(np.sum(np.asarray(answer(theta.copy(), (2, 1)))[:3])) < 1e-4,
        ),
        (
            "push up the token that was drawn",
            lambda: answer(theta.copy(), (2, 1))[2] > 0,
        ),
        ("have the right slope for the first token", lambda: agrees(slice(0, 3))),
        ("have the right slope for the second token", lambda: agrees(slice(3, 12))),
        ("be right for other logits, too", lambda: agrees(slice(None), other)),
    )


@functools.cache
def _slopes(theta):
    """{answer: the gradient of its log-probability}, for each of the nine."""

    def log_p(theta):
        rows = jax.nn.log_softmax(theta.reshape(4, 3))
        return (rows[0][:, None] + rows[1:]).ravel()

    table = np.asarray(jax.jacobian(log_p)(jnp.array(theta)))
    return {divmod(i, 3): row for i, row in enumerate(table)}


def check_correction(answer) -> Check:
    """The factor that makes the group mean's gradient unbiased."""
    # One Bernoulli policy, p = 0.3, reward 1 or 0, averaged over all groups of two:
    # only (1, 0) and (0, 1) have advantages, plus and minus one half.
    expected = 2 * 0.3 * 0.7 * (0.5 * 0.7 + 0.5 * 0.3) / 2
    return check_properties(
        ("be one number", lambda: np.ndim(answer(8)) == 0),
        ("make the estimate longer, not shorter", lambda: answer(8) > 1),
        ("matter less the larger the group", lambda: answer(64) < answer(4)),
        (
            "be right for groups of two, where all four groups can be added up by hand",
            lambda: np.isclose(answer(2) * expected, 0.3 * 0.7),
        ),
        (
            "be right for larger groups",
            lambda: all(np.isclose(answer(G) * (1 - 1 / G), 1) for G in range(2, 65)),
        ),
    )


def check_silent(answer) -> Check:
    """Which tokens the clip has switched off."""

    truth = _silent()

    def inside(i):
        return 0.8 < TOKENS[i][0] < 1.28

    return check_properties(
        (
            "be a list of whole numbers from 0 to 5",
            lambda: whole(*answer) and set(answer) <= set(range(6)),
        ),
        ("name somebody: the clip has silenced some", lambda: len(answer) > 0),
        (
            "leave out tokens whose ratio is inside the band",
            lambda: not any(map(inside, answer)),
        ),
        (
            "leave out tokens that are pushed back towards the band",
            lambda: set(answer) <= set(truth),
        ),
        ("name all that are silent", lambda: sorted(set(answer)) == truth),
    )


@functools.cache
def _silent():
    """Tokens on which the loss has no slope."""

    def slope(ratio, advantage):
        def loss(logprob):
            one = jnp.ones((1, 1, 1))
            advantages = jnp.full((1, 1), float(advantage))
            return policy_gradient_loss(logprob * one, 0 * one, advantages, one)[0]

        return float(jax.grad(loss)(jnp.log(ratio)))

    return [i for i, token in enumerate(TOKENS) if slope(*token) == 0]


@jax.grad
def _kl_slope(logits, log_q):
    log_p = jax.nn.log_softmax(logits)
    return jnp.exp(log_p) @ (log_p - log_q)


def check_kl_for_gradient(answer) -> Check:
    """An expression whose mean gradient is that of KL(p || q)."""
    logits = jnp.array([0.2, -1.0, 1.3, 0.0])
    log_q = jax.nn.log_softmax(jnp.array([1.0, 0.1, -0.4, 0.3]))
    p = jax.nn.softmax(logits)
    others = jnp.array([[0.5, -0.5, 1.0, 0.2, -1.2], [-0.3, 0.8, 0.1, -0.9, 0.4]])

    def slope(log_q, logits=logits):
        p = jax.nn.softmax(logits)

        def mean(logits):
            return p @ answer(jax.nn.log_softmax(logits), log_q)

        return np.asarray(jax.grad(mean)(logits))

    return check_properties(
        (
            "give one number per answer",
            lambda: np.shape(answer(jnp.log(p), log_q)) == (4,),
        ),
        (
            "have a mean gradient that is not 0",
            lambda: np.abs(slope(log_q)).max() > 1e-4,
        ),
        (
            "have the gradient 0 where p and q are equal",
            lambda: np.allclose(slope(jnp.log(p)), 0, atol=1e-5),
        ),
        (
            "pull along the gradient of KL(p || q), not along that of KL(q || p)",
            lambda: _cosine(slope(log_q), _kl_slope(logits, log_q)) > 0.999,
        ),
        (
            "have a gradient of the right length",
            lambda: np.allclose(slope(log_q), _kl_slope(logits, log_q), atol=1e-5),
        ),
        (
            "be right for other distributions, too",
            lambda: np.allclose(
                slope(jax.nn.log_softmax(others[1]), others[0]),
                _kl_slope(others[0], jax.nn.log_softmax(others[1])),
                atol=1e-5,
            ),
        ),
    )


def _cosine(a, b):
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))
