"""Self-checks of notebook 08."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, judge, whole


def _overlooked(ratio, low, high, tokens):
    """Whether an answer's ratio stays inside of the clip."""
    return 1 - low <= ratio ** (1 / tokens) <= 1 + high


def check_fewest_tokens(answer) -> Check:
    """How long an answer has to be for GSPO's clip to overlook one token."""
    rng = np.random.default_rng(8)
    others = [
        (math.exp(rng.uniform(-2, 2)), *rng.uniform(0.003, 0.1, 2)) for _ in range(60)
    ]

    def right(ratio, low, high):
        found = answer(ratio, low, high)
        fits = _overlooked(ratio, low, high, found)
        return fits and (found == 1 or not _overlooked(ratio, low, high, found - 1))

    return judge(
        ("give a whole number of tokens", lambda: whole(answer(3.0, 0.1, 0.1))),
        ("be 1 where the token is inside", lambda: answer(1.05, 0.1, 0.1) == 1),
        ("need one token at least", lambda: answer(1.0, 0.1, 0.1) == 1),
        (
            "be long enough above",
            lambda: _overlooked(3.0, 0.2, 0.1, answer(3.0, 0.2, 0.1)),
        ),
        ("be no longer than needed above", lambda: right(3.0, 0.2, 0.1)),
        (
            "ask the lower end of a token that became rarer",
            lambda: right(0.2, 0.1, 0.3),
        ),
        ("be right at GSPO's own clip", lambda: right(3.0, 3e-4, 4e-4)),
        ("be right for other ratios and clips", lambda: all(right(*o) for o in others)),
    )


def check_gspo_ratio(answer) -> Check:
    """One ratio per answer: the geometric mean over its real tokens."""
    old = jnp.full((1, 2, 3), -1.0)
    rho = np.array([[[2.0, 2.0, 2.0], [4.0, 1.0, 50.0]]])
    new, mask = old + np.log(rho), jnp.array([[[1, 1, 1], [1, 1, 0]]])
    others = _rollouts()
    log_ratio, weight = others[0] - others[1], others[-1]
    truth = np.exp((log_ratio * weight).sum(-1) / weight.sum(-1))

    def ratio():
        return np.asarray(answer(new, old, mask))

    return judge(
        ("give one number per answer", lambda: ratio().shape == (1, 2)),
        ("be 1 where nothing moved", lambda: np.allclose(answer(old, old, mask), 1)),
        ("be 2 where every token doubled", lambda: np.isclose(ratio()[0, 0], 2)),
        ("leave padding out", lambda: ratio()[0, 1] < 3),
        ("divide by the real length", lambda: np.isclose(ratio()[0, 1], 2)),
        (
            "be 1 for an answer that is left out whole, and leave the others alone",
            lambda: np.allclose(answer(new, old, mask.at[0, 1].set(0)), [[2, 1]]),
        ),
        (
            "be right for several questions, with answers of 1 to 5 tokens",
            lambda: np.allclose(
                answer(others[0], others[1], others[-1]), truth, rtol=1e-4
            ),
        ),
    )


def _rollouts():
    """Log-probabilities (new, old), advantages and mask of 2 questions, 3 answers each.

    Ratios on both sides of the clip, advantages on both sides of 0.
    """
    rng = np.random.default_rng(8)
    old = rng.uniform(-3, -0.5, (2, 3, 5)).astype(np.float32)
    new = old + rng.normal(0, 0.5, old.shape).astype(np.float32)
    advantages = rng.normal(0, 1, (2, 3)).astype(np.float32)
    lengths = np.array([[5, 2, 4], [1, 3, 5]])
    mask = (np.arange(5) < lengths[..., None]).astype(np.float32)
    return tuple(map(jnp.asarray, (new, old, advantages, mask)))


def check_cispo(answer) -> Check:
    """CISPO: the weight is clipped and constant, the gradient always flows."""
    old = jnp.log(jnp.full((1, 2, 2), 0.2))
    new = jnp.log(jnp.array([[[0.6, 0.2], [0.2, 0.1]]]))
    advantages, mask = jnp.array([[1.0, -1.0]]), jnp.array([[[1, 1], [1, 0]]])
    others = _rollouts()

    def slope(new, *rest, **high):
        return np.asarray(jax.grad(lambda now: answer(now, *rest, **high))(new))

    @functools.cache
    def gradient():
        return slope(new, old, advantages, mask)

    def agrees(high, given):
        return np.allclose(
            slope(*others, **given), _cispo_slope(*others, high), rtol=1e-3, atol=1e-6
        )

    return judge(
        (
            "return one number",
            lambda: jnp.shape(answer(new, old, advantages, mask)) == (),
        ),
        ("leave padding without gradient", lambda: gradient()[0, 1, 1] == 0),
        ("let the clipped token learn too", lambda: gradient()[0, 0, 0] < 0),
        (
            "clip the weight of a tripled token at 1.28",
            lambda: np.isclose(gradient()[0, 0, 0], -1.28 / 3, atol=1e-4),
        ),
        (
            "weigh a token that did not move by 1",
            lambda: np.isclose(gradient()[0, 0, 1], -1 / 3, atol=1e-4),
        ),
        (
            "weigh every token by its answer's advantage, good or bad, large or small",
            lambda: agrees(0.28, {}),
        ),
        ("clip where `high` says", lambda: agrees(0.1, {"high": 0.1})),
    )


def _cispo_slope(new, old, advantages, mask, high):
    """Minus weight times advantage, per token of the batch, by NumPy."""
    weight = np.minimum(np.exp(np.asarray(new) - np.asarray(old)), 1 + high)
    return -weight * np.asarray(advantages)[..., None] * mask / np.asarray(mask).sum()
