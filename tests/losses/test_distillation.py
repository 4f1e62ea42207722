"""Divergences against loops over their equations, and what they do at the edges.

In float64, with gradients held to finite differences of the loops; words of probability
zero, bounds, limits and float32 have tests of their own.
"""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import exact_kl, few, float64, log_softmax, same, seeds, slopes

from helpers.losses import distillation


@pytest.fixture(autouse=True)
def _everything_in_float64():
    with float64(True):
        yield


def distributions(seed, tokens, words):
    rng = np.random.default_rng(seed)
    return log_softmax(2 * rng.standard_normal((2, tokens, words)))


pairs = st.builds(lambda seed: distributions(seed, 4, 7), seeds)


# -------------------------------------------------------------------- divergences


def kl_by_hand(p, q):
    return [
        sum(np.exp(a) * (a - b) for a, b in zip(row_p, row_q, strict=True))
        for row_p, row_q in zip(p, q, strict=True)
    ]


def jsd_by_hand(student, teacher, beta):
    mix = np.log(beta * np.exp(teacher) + (1 - beta) * np.exp(student))
    return beta * np.array(kl_by_hand(teacher, mix)) + (1 - beta) * np.array(
        kl_by_hand(student, mix)
    )


def top_k_by_hand(student, teacher, k):
    """The dense forward KL between distributions with the unlisted words made one."""
    loss = []
    for s, t in zip(student, teacher, strict=True):
        best = np.argsort(-t)[:k]
        rest = np.setdiff1d(np.arange(len(t)), best)
        p = np.append(np.exp(t[best]), np.exp(t[rest]).sum())
        q = np.append(np.exp(s[best]), np.exp(s[rest]).sum())
        loss.append(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))
    return loss


def top_k(student, teacher, k):
    return distillation.top_k_forward_kl(student, *jax.lax.top_k(teacher, k))


DIVERGENCES = {
    "forward": (distillation.forward_kl, lambda s, t: kl_by_hand(t, s)),
    "reverse": (distillation.reverse_kl, lambda s, t: kl_by_hand(s, t)),
    "jsd 0.5": (distillation.jsd, partial(jsd_by_hand, beta=0.5)),
    "jsd 0.1": (partial(distillation.jsd, beta=0.1), partial(jsd_by_hand, beta=0.1)),
    "top 1": (partial(top_k, k=1), partial(top_k_by_hand, k=1)),
    "top 2": (partial(top_k, k=2), partial(top_k_by_hand, k=2)),
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_divergences_are_their_equations_and_slope_as_they_should(name):
    divergence, by_hand = DIVERGENCES[name]

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def slope(logits, teacher):
        each = divergence(jax.nn.log_softmax(logits), teacher)
        return jnp.mean(each), each

    @few
    @given(pair=pairs)
    def check(pair):
        student, teacher = pair
        (_, each), gradient = slope(student, teacher)
        same(each, by_hand(student, teacher))
        numeric = slopes(lambda x: np.mean(by_hand(log_softmax(x), teacher)), student)
        same(gradient, numeric, 1e-6)

    check()


@few
@given(pair=pairs)
def test_jsd_tends_to_forward_and_to_reverse_kl_at_its_ends(pair):
    student, teacher = pair
    tiny = 1e-9  # far below the smallest probability, far above rounding in float64
    forward = distillation.jsd(student, teacher, tiny) / tiny
    reverse = distillation.jsd(student, teacher, 1 - tiny) / tiny
    same(forward, distillation.forward_kl(student, teacher), 1e-3)
    same(reverse, distillation.reverse_kl(student, teacher), 1e-3)
    assert (distillation.jsd(student, teacher) <= np.log(2) + 1e-12).all()
    for end in (0.0, 1.0):  # it would teach nothing
        with pytest.raises(ValueError, match="forward_kl"):
            distillation.jsd(student, teacher, end)


@few
@given(seed=seeds)
def test_all_words_kept_equals_the_dense_kl_and_fewer_never_exceed_it(seed):
    student, teacher = distributions(seed, 4, 5)
    bounds = [top_k(student, teacher, k) for k in range(1, 6)]
    same(bounds[-1], distillation.forward_kl(student, teacher))
    for fewer, more in itertools.pairwise(bounds):
        assert (fewer <= more + 1e-9).all()


def test_words_ruled_out_by_a_model_make_no_nan():
    """A logit of -inf is probability 0: infinitely bad for some divergences only."""
    wide = jnp.array([[0.3, 0.2, 0.1, -jnp.inf]])
    narrow = jnp.array([[0.2, -jnp.inf, -0.7, -jnp.inf]])

    def mean(logits, teacher, divergence):
        log_q, log_p = jax.nn.log_softmax(logits), jax.nn.log_softmax(teacher)
        return jnp.sum(divergence(log_q, log_p))

    for student, teacher, divergence in (
        (wide, narrow, distillation.forward_kl),
        (narrow, wide, distillation.reverse_kl),
        (narrow, wide, distillation.jsd),
        (wide, narrow, distillation.jsd),
    ):
        value, gradient = jax.value_and_grad(mean)(student, teacher, divergence)
        assert np.isfinite(value) and np.isfinite(gradient).all()
    assert mean(narrow, wide, distillation.forward_kl) == np.inf
    assert mean(wide, narrow, distillation.reverse_kl) == np.inf


# ------------------------------------------------------------- from samples alone


def test_sampled_reverse_kl_has_the_gradient_of_the_exact_reverse_kl_on_average():
    rng = np.random.default_rng(2)
    logits, teacher = rng.standard_normal(12), log_softmax(rng.standard_normal(12))

    def average(logits, estimate):
        student = jax.nn.log_softmax(logits)
        weights = jax.lax.stop_gradient(jnp.exp(student))
        return sum(
            weights[word] * estimate(student[word], teacher[word]) for word in range(12)
        )

    def sampled(student, teacher):
        one = jnp.ones((1,))
        return distillation.sampled_reverse_kl(student[None], teacher * one, one)[0]

    exact = slopes(lambda x: exact_kl(log_softmax(x), teacher), logits)
    value, gradient = jax.value_and_grad(average)(jnp.asarray(logits), sampled)
    same(value, exact_kl(log_softmax(logits), teacher))
    same(gradient, exact, 1e-7)
    assert np.abs(exact).max() > 0.1
    same(jax.grad(average)(jnp.asarray(logits), jnp.subtract), np.zeros(12))


sampled_slope = jax.jit(
    jax.value_and_grad(distillation.sampled_reverse_kl, has_aux=True)
)


@few
@given(seed=seeds, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_sampled_reverse_kl_pushes_each_token_by_its_gap(seed, share):
    rng = np.random.default_rng(seed)
    student, teacher = -3 * rng.random((2, 2, 3, 4))
    mask = (rng.random((2, 3, 4)) < share).astype(np.float32)
    (loss, metrics), gradient = sampled_slope(student, teacher, mask)
    gap = (student - teacher) * mask / max(mask.sum(), 1)
    same(loss, gap.sum())
    same(gradient, gap)
    assert metrics["weight"] == mask.sum()
