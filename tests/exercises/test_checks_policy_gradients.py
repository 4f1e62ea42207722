"""The self-checks of notebook 06 turn away the answers that learners give first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.exercises import policy_gradients as checks


def score(*, subtract=True, conditional=True, shift=0.0):
    """The solution of exercise 1, with its usual mistakes as switches."""

    def answer(theta, pair):
        first, second = pair
        gradient = np.zeros(12)
        row = 3 + 3 * first if conditional else 3
        for block, token in ((0, first), (row, second)):
            p = np.exp(theta[block : block + 3])
            gradient[block : block + 3] -= p / p.sum() * subtract + shift
            gradient[block + token] += 1
        return gradient

    return answer


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda theta, pair: np.zeros(9), "(12,)"),
        (lambda theta, pair: np.zeros(12), "was drawn"),
        (score(subtract=False), "add up to 0"),
        (score(conditional=False), "not drawn"),
        (lambda theta, pair: -score()(theta, pair), "push up"),
        (lambda theta, pair: 2 * score()(theta, pair), "right slope"),
    ],
)
def test_a_score_is_told_what_is_wrong_with_it(answer, word):
    verdict = checks.check_score(answer)
    assert not verdict.passed and word in verdict.message


def test_a_score_by_hand_and_one_by_jax_pass():
    def by_jax(theta, pair):
        def log_p(theta):
            first, second = pair
            row = theta[3 + 3 * first : 6 + 3 * first]
            return (
                jax.nn.log_softmax(theta[:3])[first] + jax.nn.log_softmax(row)[second]
            )

        return jax.grad(log_p)(jnp.asarray(theta))

    assert checks.check_score(score()).passed
    assert checks.check_score(by_jax).passed


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda G: (G - 1) / G, "longer"),
        (lambda G: G, "larger"),
        (lambda G: 1 + 1 / G, "groups of two"),
        (lambda G: 2 if G == 2 else 1 + 1 / G, "larger groups"),
    ],
)
def test_a_wrong_correction_is_told_where_it_fails(answer, word):
    verdict = checks.check_correction(answer)
    assert not verdict.passed and word in verdict.message


def test_the_right_correction_passes():
    assert checks.check_correction(lambda G: G / (G - 1)).passed


@pytest.mark.parametrize(
    "answer, word",
    [
        ([], "somebody"),
        ([6], "0 to 5"),
        ([0, 3, 5], "inside the band"),
        ([0, 1, 2, 3], "pushed back"),
        ([0], "all"),
    ],
)
def test_a_wrong_list_of_silent_tokens_is_told_why(answer, word):
    verdict = checks.check_silent(answer)
    assert not verdict.passed and word in verdict.message


def test_the_silent_tokens_pass_in_any_order():
    assert checks.check_silent([3, 0]).passed
    assert checks.check_silent((0, 3)).passed


def stopped(x):
    return jax.lax.stop_gradient(x)


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda p, q: p - q, "not 0"),
        (lambda p, q: jnp.expm1(q - p) + p - q, "KL(q || p)"),  # k3 alone
        (lambda p, q: jnp.exp(p) * (p - q), "are equal"),  # p twice
        (lambda p, q: 2 * stopped(p - q) * p, "right length"),
        (lambda p, q: -stopped(p - q) * p, "KL(p || q)"),
        (lambda p, q: stopped(p - q + 1) * stopped(p), "not 0"),
        (lambda p, q: jnp.sum(p - q), "one number per answer"),
    ],
)
def test_a_wrong_kl_is_told_why(answer, word):
    verdict = checks.check_kl_for_gradient(answer)
    assert not verdict.passed and word in verdict.message


@pytest.mark.parametrize(
    "answer",
    [
        lambda p, q: stopped(p - q) * p,
        lambda p, q: stopped(p - q + 1) * p,
        lambda p, q: (p - q) ** 2 / 2,
    ],
)
def test_every_kl_with_the_right_gradient_passes(answer):
    assert checks.check_kl_for_gradient(answer).passed
