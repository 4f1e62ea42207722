"""DPO and ORPO against loops over their equations, slopes, and known optima."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import few, float64, same, seeds, slopes

from helpers.losses import preferences


@pytest.fixture(autouse=True)
def _everything_in_float64():
    with float64(True):
        yield


def sampled(seed, pairs=3, length=4):
    """Random log-probs of two policies; masks with holes and blanks."""
    rng = np.random.default_rng(seed)
    shape = (pairs, 2, length)
    reference = -3 * rng.random(shape)
    return {
        "new": np.minimum(reference + 0.4 * rng.standard_normal(shape), -0.05),
        "reference": reference,
        "mask": (rng.random(shape) < rng.random((pairs, 2, 1))).astype(np.float32),
    }


drawn = st.builds(sampled, seeds)
weights = st.sampled_from((0.1, 2.0))  # each is compiled anew


def log_sigmoid(x):
    return -np.log1p(np.exp(-x))


def by_hand(r, compare):
    """(mean over the pairs with two answers of `judge(...)`, their number)."""
    compared = []
    for p in range(len(r["mask"])):
        where = [np.flatnonzero(r["mask"][p, side]) for side in (0, 1)]
        if all(map(len, where)):
            new = [[r["new"][p, side, t] for t in where[side]] for side in (0, 1)]
            old = [[r["reference"][p, side, t] for t in where[side]] for side in (0, 1)]
            compared.append(compare(new, old))
    return (np.mean(compared) if compared else 0.0), len(compared)


def dpo_by_hand(r, beta):
    def compare(new, old):
        gained = [sum(a) - sum(b) for a, b in zip(new, old, strict=True)]
        margin = beta * (gained[0] - gained[1])
        return -log_sigmoid(margin)

    return by_hand(r, compare)


def orpo_by_hand(r, strength):
    def compare(new, _):
        p = [np.exp(np.mean(answer)) for answer in new]
        odds = [x / (1 - x) for x in p]
        prefers = log_sigmoid(np.log(odds[0] / odds[1]))
        return -np.log(p[0]) - strength * prefers

    return by_hand(r, compare)


@partial(jax.jit, static_argnames=("name", "weight"))
def slope(name, new, r, weight=0.1):
    def loss(new):
        if name == "orpo":
            return preferences.orpo_loss(new, r["mask"], strength=weight)
        return preferences.dpo_loss(new, r["reference"], r["mask"], beta=weight)

    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(new)
    return value, metrics, gradient


BY_HAND = {"dpo": dpo_by_hand, "orpo": orpo_by_hand}
each = pytest.mark.parametrize("name", BY_HAND)


@each
@few
@given(r=drawn, weight=weights)
def test_loss_slope_and_metrics_are_those_of_the_equation(name, r, weight):
    value, metrics, gradient = slope(name, r["new"], r, weight)
    expected, pairs = BY_HAND[name](r, weight)
    same(value, expected, 1e-8)
    assert metrics["weight"] == pairs and 0 <= metrics["pair/ranked"] <= 1

    def moved(new):
        return BY_HAND[name](r | {"new": new}, weight)[0]

    same(gradient, slopes(moved, r["new"]), 1e-6)
    for side, what in enumerate(("chosen", "rejected")):
        expected, _ = by_hand(r, lambda new, _, side=side: sum(new[side]))
        same(metrics[f"pair/{what}"], expected, 1e-9)


@each
@few
@given(r=drawn)
def test_what_the_mask_leaves_out_has_no_say(name, r):
    off = r["mask"] == 0
    changed = {what: np.where(off, np.nan, r[what]) for what in ("new", "reference")}
    clean = slope(name, r["new"], r)
    jax.tree.map(same, slope(name, changed["new"], r | changed), clean)
    assert (np.asarray(clean[2])[off] == 0).all()


def test_dpo_starts_at_the_logarithm_of_two_and_pulls_the_answers_apart():
    r = sampled(1)
    r["mask"][:] = 1
    value, metrics, gradient = slope("dpo", r["reference"], r, 0.4)
    same(value, np.log(2))
    assert metrics["pair/margin"] == 0 == metrics["pair/ranked"]
    same(gradient[:, 0], -0.4 / 2 / 3)  # every token of an answer alike
    same(gradient[:, 1], 0.4 / 2 / 3)


def four_judges(logits):
    """One token decides; three judges of four choose the first answer, one the other.

    Returns:
      Log-probabilities (4, 2, 1) of a policy over the two answers, and a full mask.
    """
    logprobs_2 = jax.nn.log_softmax(logits)
    swapped = logprobs_2[::-1]
    pairs_42 = jnp.stack([logprobs_2, logprobs_2, logprobs_2, swapped])
    return pairs_42[..., None], np.ones((4, 2, 1))


@pytest.mark.parametrize("beta", [0.1, 1.0, 3.0])
def test_dpo_of_three_judges_of_four_is_best_where_its_margin_is_the_log_of_three(beta):
    """σ(m) = 3/4, so log π/π' has moved by log(3) / β from the reference."""
    start = np.array([0.3, 1.1])
    reference, _ = four_judges(start)

    def loss(shift):
        logprobs, mask = four_judges(start + jnp.array([1.0, 0.0]) * shift)
        return preferences.dpo_loss(logprobs, reference, mask, beta=beta)[0]

    rises = jax.jit(jax.grad(loss))
    best = np.log(3) / beta
    same(rises(best), 0.0)
    assert rises(0.9 * best) < -1e-4 * beta and rises(1.1 * best) > 1e-4 * beta
    same(loss(best), -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))


@pytest.mark.parametrize("strength", [0.0, 0.5, 4.0])
def test_orpo_of_three_judges_of_four_is_best_where_its_equation_says(strength):
    """p + 2λσ(2z) = 3/4 (1 + 2λ), z = log p/(1 - p): from log 3 down to log(3)/2."""

    def surplus(z):
        p, both = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-2 * z))
        return p + 2 * strength * both - 0.75 * (1 + 2 * strength)

    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if surplus(middle) > 0 else (middle, high)

    def loss(z):
        logprobs, mask = four_judges(jnp.array([1.0, 0.0]) * z)
        return preferences.orpo_loss(logprobs, mask, strength=strength)[0]

    rises = jax.jit(jax.grad(loss))
    same(rises(low), 0.0, 1e-8)
    assert rises(0.9 * low) < -1e-3 and rises(1.1 * low) > 1e-3
    assert np.log(3) / 2 < low <= np.log(3) + 1e-9


@few
@given(seeds)
def test_a_reward_models_loss_is_the_surprise_of_bradley_and_terrys_judge(seed):
    rewards = np.random.default_rng(seed).normal(size=(5, 2))
    loss, metrics = preferences.reward_model_loss(rewards)
    odds = np.exp(rewards)
    same(loss, -np.mean(np.log(odds[:, 0] / odds.sum(axis=1))))
    assert metrics == {"weight": 5}


def test_an_answer_that_is_certain_has_finite_odds_and_slopes():
    logprobs, mask = np.zeros((1, 2, 3)), np.ones((1, 2, 3))
    logprobs[0, 1] = -0.5
    value, gradient = jax.value_and_grad(lambda x: preferences.orpo_loss(x, mask)[0])(
        logprobs
    )
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_long_answers_of_bfloat16_are_summed_in_float32():
    logprobs = np.full((1, 2, 4096), -0.01)
    logprobs[:, 1] *= 1.01
    half = jnp.asarray(logprobs, jnp.bfloat16)
    exact = np.asarray(half, np.float64).sum(axis=-1)
    sums = preferences.answer_sums(half, np.ones(half.shape))
    assert sums.dtype == jnp.float32
    same(sums, exact, 1e-5)


@each
def test_pieces_combined_by_weight_are_the_whole(name):
    r = sampled(5, pairs=6)
    whole, metrics, _ = slope(name, r["new"], r)
    pieces = [{what: x[i : i + 2] for what, x in r.items()} for i in (0, 2, 4)]
    parts = [slope(name, piece["new"], piece) for piece in pieces]
    counts = [float(part[1]["weight"]) for part in parts]
    assert sum(counts) == metrics["weight"] > 0
    same(whole, np.dot(counts, [part[0] for part in parts]) / sum(counts))


def test_what_is_no_pair_is_refused():
    three, pair = np.zeros((2, 3, 4)), np.zeros((2, 2, 4))
    dpo, orpo = preferences.dpo_loss, preferences.orpo_loss
    for call, message in (
        (lambda: dpo(three, three, three), r"\(2, 3, 4\).*chosen answer first"),
        (lambda: orpo(three, three), r"\(2, 3, 4\).*chosen answer first"),
        (lambda: dpo(pair, three, pair), "mask entry per token"),
        (lambda: dpo(pair, pair, pair, beta=0), "beta=0"),
        (lambda: orpo(pair, pair, strength=-1), "strength=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
