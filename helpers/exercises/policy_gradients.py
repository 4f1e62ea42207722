"""Self-checks of notebook 06: a score, the group's baseline, the clip, and a KL."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, judge
from helpers.losses.policy_gradient import policy_gradient_loss

TOKENS = [(1.5, +1), (1.5, -1), (0.6, +1), (0.6, -1), (1.1, +1), (1.0, -1)]


def check_score(answer) -> Check:
    """The score of one two-token answer of the table policy."""
    theta = np.array([0.3, -0.2, 0.9, *np.linspace(-1, 1, 9)], np.float32)

    def log_p(theta, first, second):
        row = jax.lax.dynamic_slice(theta, (3 + 3 * first,), (3,))
        return jax.nn.log_softmax(theta[:3])[first] + jax.nn.log_softmax(row)[second]

    pairs = [(a, b) for a in range(3) for b in range(3)]
    exact = {pair: np.asarray(jax.grad(log_p)(theta, *pair)) for pair in pairs}

    def agrees(part):
        return all(
            np.allclose(
                np.asarray(answer(theta, pair))[part], exact[pair][part], 0, 1e-4
            )
            for pair in pairs
        )

    def other_rows_are_zero():
        got = np.asarray(answer(theta, (1, 2)))
        return not got[3:6].any() and not got[9:].any()

    return judge(
        (
            "have shape (12,)",
            lambda: np.shape(answer(theta, (0, 0))) == (12,),
        ),
        (
            "leave theta as it is",
            lambda: np.array_equal(_after(answer, theta), theta),
        ),
        (
            "be 0 for the second-token logits of first tokens that were not drawn",
            other_rows_are_zero,
        ),
        (
            "add up to 0 over the logits of one softmax",
            lambda: abs(np.sum(np.asarray(answer(theta, (2, 1)))[:3])) < 1e-4,
        ),
        (
            "push up the token that was drawn",
            lambda: answer(theta, (2, 1))[2] > 0,
        ),
        ("have the right slope for the first token", lambda: agrees(slice(0, 3))),
        ("have the right slope for the second token", lambda: agrees(slice(3, 12))),
    )


def _after(answer, theta):
    """What a call leaves of its argument."""
    given = theta.copy()
    answer(given, (1, 1))
    return given


def check_correction(answer) -> Check:
    """The factor that makes the group mean's gradient unbiased."""
    # One Bernoulli policy, p = 0.3, reward 1 or 0, averaged over all groups of two:
    # only (1, 0) and (0, 1) have advantages, plus and minus one half.
    expected = 2 * 0.3 * 0.7 * (0.5 * 0.7 + 0.5 * 0.3) / 2
    return judge(
        ("be one number", lambda: np.ndim(answer(8)) == 0),
        ("make the estimate longer, not shorter", lambda: answer(8) > 1),
        ("matter less the larger the group", lambda: answer(64) < answer(4)),
        (
            "be right for groups of two, where all four groups can be added up by hand",
            lambda: np.isclose(answer(2) * expected, 0.3 * 0.7),
        ),
        (
            "be right for larger groups",
            lambda: all(np.isclose(answer(G) * (1 - 1 / G), 1) for G in (3, 8, 64)),
        ),
    )


def check_silent(answer) -> Check:
    """Which tokens the clip has switched off."""

    def slope(ratio, advantage):
        def loss(logprob):
            one = jnp.ones((1, 1, 1))
            advantages = jnp.full((1, 1), float(advantage))
            return policy_gradient_loss(logprob * one, 0 * one, advantages, one)[0]

        return float(jax.grad(loss)(jnp.log(ratio)))

    truth = [i for i, token in enumerate(TOKENS) if slope(*token) == 0]

    def inside(i):
        return 0.8 < TOKENS[i][0] < 1.28

    return judge(
        (
            "be a list of whole numbers from 0 to 5",
            lambda: set(answer) <= set(range(6)),
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


def check_kl_for_gradient(answer) -> Check:
    """An expression whose mean gradient is that of KL(p || q)."""
    logits = jnp.array([0.2, -1.0, 1.3, 0.0])
    log_q = jax.nn.log_softmax(jnp.array([1.0, 0.1, -0.4, 0.3]))
    p = jax.nn.softmax(logits)

    def kl(logits):
        log_p = jax.nn.log_softmax(logits)
        return jnp.exp(log_p) @ (log_p - log_q)

    def slope(log_q):
        def mean(logits):
            return p @ answer(jax.nn.log_softmax(logits), log_q)

        return np.asarray(jax.grad(mean)(logits))

    return judge(
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
            lambda: _cosine(slope(log_q), jax.grad(kl)(logits)) > 0.999,
        ),
        (
            "have a gradient of the right length",
            lambda: np.allclose(slope(log_q), jax.grad(kl)(logits), atol=1e-5),
        ),
    )


def _cosine(a, b):
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))
