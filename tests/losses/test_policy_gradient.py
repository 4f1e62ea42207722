"""Losses against loops over their equations, finite differences, and exact averages.

Everything here runs in float64, where a wrong term cannot hide behind rounding; the
float32 and bfloat16 behaviour has tests of its own.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numeric import exact_kl, few, float64, log_softmax, same, seeds, slopes

from helpers import losses

LEVELS = ("token", "sequence", "sequence-token")
AGGREGATES = ("token-mean", "sequence-mean", "constant")
LENGTH = 9.0  # constant_length wherever the constant mean is tested


@pytest.fixture(autouse=True)
def _everything_in_float64():
    with float64(True):
        yield


# ---------------------------------------------------------------- data and references


def rollout(seed, prompts, group, length, *, drift=0.3):
    """Random log-probs of three policies, advantages, masks with holes and blanks."""
    rng = np.random.default_rng(seed)
    shape = (prompts, group, length)
    old = -3 * rng.random(shape)
    mask = (rng.random(shape) < rng.random((prompts, group, 1))).astype(np.float32)
    return {
        "new": old + drift * rng.standard_normal(shape),
        "old": old,
        "reference": old + drift * rng.standard_normal(shape),
        "advantages": rng.standard_normal((prompts, group)),
        "mask": mask,
    }


# One shape, because each is compiled anew; the masks draw the lengths.
rollouts = st.builds(lambda seed: rollout(seed, 2, 3, 4), seeds)


def policy_gradient_by_hand(r, *, clip, level, aggregate, beta, new=None):
    """The loss, one token at a time, as the papers write it.

    `r["new"]` are the log-probs behind the stop-gradient of GSPO-token.
    """
    new, constant = r["new"] if new is None else new, r["new"]
    answers, tokens, filled, total, per_answer = 0, 0, 0, 0.0, 0.0
    for p, g in np.ndindex(*r["advantages"].shape):
        where = np.flatnonzero(r["mask"][p, g])
        advantage, answer_sum = r["advantages"][p, g], 0.0
        answers += 1
        for t in where:
            ratio = np.exp(new[p, g, t] - r["old"][p, g, t])
            if level == "token":
                s = ratio
            elif level == "sequence":
                s = np.exp(np.mean([new[p, g, u] - r["old"][p, g, u] for u in where]))
            else:
                moved = [constant[p, g, u] - r["old"][p, g, u] for u in where]
                s = np.exp(np.mean(moved) + new[p, g, t] - constant[p, g, t])
            clipped = min(max(s, 1 - clip[0]), 1 + clip[1])
            x = r["reference"][p, g, t] - new[p, g, t]
            kl = ratio * (np.exp(x) - x - 1)
            answer_sum += -min(s * advantage, clipped * advantage) + beta * kl
        tokens += len(where)
        total += answer_sum
        if len(where):
            filled += 1
            per_answer += answer_sum / len(where)
    if aggregate == "token-mean":
        return total / max(tokens, 1), tokens
    if aggregate == "sequence-mean":
        return per_answer / max(filled, 1), filled
    return total / (answers * LENGTH), answers * LENGTH


@partial(jax.jit, static_argnames=("level", "aggregate", "clips", "constant_length"))
def _value_and_gradient(new, r, clip, beta, **switches):
    def loss(new):
        rest, near = (
            (r["old"], r["advantages"], r["mask"]),
            {"beta": beta, "clip": clip},
        )
        near["reference_logprobs_PGT"] = r["reference"]
        return losses.policy_gradient_loss(new, *rest, **near, **switches)

    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(new)
    return value, metrics, gradient


def trained(r, *, level="token", aggregate="token-mean", clip=(0.2, 0.28), beta=0.0,
            clips="gain"):  # fmt: skip
    """Value, metrics and gradient of the loss on a rollout, as NumPy arrays."""
    switches = {"level": level, "aggregate": aggregate, "clips": clips}
    result = _value_and_gradient(
        r["new"], r, clip, beta, constant_length=LENGTH, **switches
    )
    return jax.tree.map(np.asarray, result)


# ------------------------------------------------------------------ policy gradients


@few
@given(
    r=rollouts,
    level=st.sampled_from(LEVELS),
    aggregate=st.sampled_from(AGGREGATES),
    clip=st.sampled_from([(0.2, 0.28), (3e-4, 4e-4), (0.5, 5.0)]),
    beta=st.sampled_from([0.0, 0.1]),
)
def test_policy_gradient_loss_is_its_equation_one_token_at_a_time(
    r, level, aggregate, clip, beta
):
    switches = dict(clip=clip, level=level, aggregate=aggregate, beta=beta)
    loss, metrics, gradient = trained(r, **switches)
    by_hand, weight = policy_gradient_by_hand(r, **switches)
    same(loss, by_hand)
    same(metrics["weight"], weight, 1e-6)
    numeric = slopes(
        lambda new: policy_gradient_by_hand(r, new=new, **switches)[0], r["new"]
    )
    same(gradient, numeric, 1e-6)


@few
@given(r=rollouts)
def test_metrics_are_means_over_tokens(r):
    _, metrics, _ = trained(r, aggregate="sequence-mean")
    here = r["mask"] > 0
    move = (r["new"] - r["old"])[here]
    ratio = np.exp(move)
    advantage = np.broadcast_to(r["advantages"][..., None], here.shape)[here]
    too_high, too_low = ratio > 1.28, ratio < 0.8
    away = (r["reference"] - r["new"])[here]
    expected = {
        "ratio_mean": ratio,
        "clip_fraction": np.where(advantage > 0, too_high, too_low),
        "approx_kl": ratio - 1 - move,
        "kl_reference": ratio * (np.exp(away) - 1 - away),
    }
    for name, values in expected.items():
        same(metrics[name], values.mean() if values.size else 0, 1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_the_ratio_is_exactly_one_where_the_policy_has_not_moved(level):
    r = rollout(0, 2, 3, 4)
    old = r["old"].astype(jnp.bfloat16).astype(np.float32)
    assert (losses.importance_ratio(old, old, r["mask"], level) == 1).all()
    _, metrics, _ = trained(r | {"new": r["old"]}, level=level)
    assert metrics["ratio_mean"] == 1
    assert metrics["clip_fraction"] == metrics["approx_kl"] == 0


@few
@given(seeds, st.floats(1.0, 4.0))
def test_a_samplers_tokens_weighed_stand_for_the_policys_where_no_cap_binds(seed, cap):
    """Exact averages over a vocabulary: E_sampler[w f] = E_policy[f] without a cap."""
    rng = np.random.default_rng(seed)
    policy, sampler = (log_softmax(rng.standard_normal((1, 1, 7))) for _ in range(2))
    values, mask = rng.standard_normal(7), np.ones((1, 1, 7))
    weights = losses.sampler_weights(policy, sampler, mask, 1e6)
    weighed = (np.exp(sampler) * np.asarray(weights) * values).sum()
    same(weighed, (np.exp(policy) * values).sum())
    capped = losses.sampler_weights(policy, sampler, mask, cap)
    same(capped, np.minimum(np.exp(policy - sampler), cap))
    with pytest.raises(ValueError, match="cap=0.5.*1 or more"):
        losses.sampler_weights(policy, sampler, mask, 0.5)


def test_a_clipped_token_is_no_longer_pushed_the_same_way_but_can_come_back():
    new = jnp.log(jnp.array([[[1.5], [1.5], [0.5], [0.5]]]))
    old, mask = jnp.zeros((1, 4, 1)), jnp.ones((1, 4, 1))
    advantages = jnp.array([[1.0, -1.0, 1.0, -1.0]])

    @jax.jit
    @partial(jax.grad, has_aux=True)
    def slope(new):
        return losses.policy_gradient_loss(new, old, advantages, mask)

    gradient, metrics = slope(new)
    moved = (gradient[0, :, 0] != 0).tolist()
    assert moved == [False, True, True, False]
    assert metrics["clip_fraction"] == 0.5


@few
@given(r=rollouts, kinds=st.sampled_from(list(zip(LEVELS, AGGREGATES, strict=True))))
def test_micro_batches_combined_by_weight_equal_the_full_batch(r, kinds):
    switches = {"level": kinds[0], "aggregate": kinds[1], "beta": 0.1}
    whole, metrics, gradient = trained(r, **switches)
    parts = [
        trained({name: array[p : p + 1] for name, array in r.items()}, **switches)
        for p in range(len(r["mask"]))
    ]
    weights = [metrics["weight"] for _, metrics, _ in parts]
    total = max(sum(weights), 1)
    same(metrics["weight"], sum(weights))
    same(whole, np.dot(weights, [part[0] for part in parts]) / total)
    weighted = [w * part[2] for w, part in zip(weights, parts, strict=True)]
    same(gradient, np.concatenate(weighted) / total)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_what_the_mask_leaves_out_changes_nothing_even_if_it_is_not_a_number(aggregate):
    """And with nothing under it there is no loss and no gradient, nor a NaN."""
    r = rollout(2, 2, 3, 4)
    junk = {"new": np.nan, "old": -np.inf, "reference": np.inf}
    dirty = r | {name: np.where(r["mask"] > 0, r[name], x) for name, x in junk.items()}
    for level in LEVELS:
        switches = dict(level=level, aggregate=aggregate, beta=0.1)
        clean, dirty_result = trained(r, **switches), trained(dirty, **switches)
        jax.tree.map(same, dirty_result, clean)
        assert (dirty_result[2][r["mask"] == 0] == 0).all()
        nothing = dirty | {"mask": 0 * r["mask"]}
        value, metrics, gradient = trained(nothing, **switches)
        assert value == 0 and (gradient == 0).all()
        assert all(np.isfinite(number) for number in metrics.values())


@pytest.mark.parametrize("kind", ("mean", "mean-std", "leave-one-out"))
def test_a_group_in_which_all_answers_score_the_same_moves_nothing(kind):
    rewards = jnp.array([[0.1] * 7, [1.1] * 7, [1, 0, 1, 0, 0, 0, 1]], jnp.float32)
    advantages = losses.advantages(rewards, kind)
    assert (advantages[:2] == 0).all() and (advantages[2] != 0).any()


def test_a_runaway_ratio_is_a_large_number_not_an_infinite_one():
    r = rollout(4, 2, 3, 4)
    for drift in (-500, 500):
        r["new"] = r["old"] + drift
        results = trained(r, beta=0.1)
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(results))


def test_half_precision_is_summed_in_float32():
    logprobs = jnp.full((1, 1, 4096), -1.0, jnp.bfloat16)
    loss, metrics = losses.sft_loss(logprobs[0], jnp.ones((1, 4096), jnp.bfloat16))
    assert loss.dtype == jnp.float32
    assert loss == 1 and metrics["weight"] == 4096
    advantage, mask = jnp.ones((1, 1), jnp.bfloat16), jnp.ones((1, 1, 4096))
    loss, _ = losses.policy_gradient_loss(logprobs, logprobs, advantage, mask)
    assert loss.dtype == jnp.float32 and loss == -1


# ------------------------------------------------------- what the clip holds: a weight


def answers_of(r):
    """(prompt, answer, its tokens) of a rollout."""
    for p, g in np.ndindex(*r["advantages"].shape):
        yield p, g, np.flatnonzero(r["mask"][p, g])


@few
@given(r=rollouts, clip=st.sampled_from([(1.0, 0.28), (0.1, 0.1), (1.0, 4.0)]))
def test_cispo_is_its_equation_and_each_of_its_tokens_keeps_a_gradient(r, clip):
    """2506.13585, eq. 4, by NumPy: the weight is a number, the gradient is of log π."""
    total, tokens, cut = 0.0, 0, 0
    expected = np.zeros(r["new"].shape)
    for p, g, where in answers_of(r):
        for t in where:
            ratio = np.exp(r["new"][p, g, t] - r["old"][p, g, t])
            weight = min(max(ratio, 1 - clip[0]), 1 + clip[1])
            total += weight * r["advantages"][p, g] * r["new"][p, g, t]
            expected[p, g, t] = -weight * r["advantages"][p, g]
            cut += weight != ratio
        tokens += len(where)
    loss, metrics, gradient = trained(r, clips="weight", clip=clip)
    same(loss, -total / max(tokens, 1))
    same(gradient, expected / max(tokens, 1))
    same(metrics["clip_fraction"], cut / max(tokens, 1), 1e-6)
    assert ((gradient != 0) == (r["mask"] > 0)).all()


@few
@given(r=rollouts)
def test_rloo_is_reinforce_on_the_sum_of_an_answers_log_probabilities(r):
    """2402.14740: (1/G) Σ (R_i - mean of the others) ∇ log π(y_i), with no ratio."""
    rewards = np.random.default_rng(0).random(r["advantages"].shape)
    group = rewards.shape[1]
    expected = np.zeros(r["new"].shape)
    for p, g, where in answers_of(r):
        others = [rewards[p, i] for i in range(group) if i != g]
        expected[p, g, where] = -(rewards[p, g] - np.mean(others)) / rewards.size
    r["advantages"] = losses.advantages(rewards, "leave-one-out")
    how = {"clips": "weight", "clip": (0.0, 0.0), "aggregate": "constant"}
    _, _, gradient = trained(r, **how)
    same(gradient, expected / LENGTH, 1e-5)


# ------------------------------------------------------------------------- GSPO

gspo_slope = jax.jit(jax.value_and_grad(losses.gspo_loss, has_aux=True))
gspo_token_loss = partial(
    losses.policy_gradient_loss,
    clip=(3e-4, 4e-4),
    level="sequence-token",
    aggregate="sequence-mean",
)
gspo_token_slope = jax.jit(jax.value_and_grad(gspo_token_loss, has_aux=True))


@few
@given(r=rollouts, clip=st.sampled_from([(3e-4, 4e-4), (0.2, 0.28)]))
def test_gspo_is_equation_5_of_its_paper(r, clip):
    objective, answers = 0.0, 0
    for p, g, where in answers_of(r):
        if len(where):
            likelier = np.exp(r["new"][p, g, where] - r["old"][p, g, where])
            s = np.prod(likelier) ** (1 / len(where))
            clipped = min(max(s, 1 - clip[0]), 1 + clip[1])
            objective += min(s * r["advantages"][p, g], clipped * r["advantages"][p, g])
            answers += 1
    (loss, metrics), _ = gspo_slope(
        r["new"], r["old"], r["advantages"], r["mask"], clip
    )
    same(loss, -objective / max(answers, 1))
    assert metrics["weight"] == answers


@few
@given(r=rollouts, drift=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_gspo_and_gspo_token_agree_when_the_advantage_is_per_sequence(r, drift):
    new = r["old"] + drift * (r["new"] - r["old"])
    rest = (r["old"], r["advantages"], r["mask"])
    (gspo, _), gspo_gradient = gspo_slope(new, *rest)
    (token, _), token_gradient = gspo_token_slope(new, *rest)
    same(gspo, token)
    same(gspo_gradient, token_gradient)


# ------------------------------------------------------------------------ advantages


@few
@given(
    rewards=st.lists(
        st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=4, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_advantages_are_their_definitions(rewards):
    for kind in ("mean", "mean-std", "leave-one-out"):
        got = losses.advantages(np.array(rewards), kind)
        for group, row in zip(rewards, got, strict=True):
            for i, reward in enumerate(group):
                others = group[:i] + group[i + 1 :]
                mean, std = np.mean(group), np.std(group)
                expected = {
                    "mean": reward - mean,
                    "mean-std": (reward - mean) / std if std > 1e-12 else 0,
                    "leave-one-out": reward - np.mean(others),
                }[kind]
                same(row[i], expected)


def test_rewards_normalised_one_by_one_are_told_apart_where_their_sum_is_not():
    """GDPO's equations 4 and 7 in NumPy; the sums of the first prompt are all 6."""
    both = np.array([[[0, 1.0, 1, 1], [3, 4, 3, 3]], [[6, 4, 4.0, 4], [1, 1, 2, 1]]])
    expected, weights = 0, np.array([2.0, 1.0])
    for rewards, weight in zip(both, weights, strict=True):
        mean, std = (f(rewards, axis=1, keepdims=True) for f in (np.mean, np.std))
        expected = expected + weight * (rewards - mean) / std
    decoupled = losses.decoupled_rewards(both, weights)
    same(decoupled, expected)
    summed = np.tensordot(weights, both, axes=1)
    assert (losses.advantages(summed)[0] == 0).all() and (decoupled[0] != 0).all()


@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0, 1e3, 1e6])
def test_rewards_that_differ_by_rounding_have_no_advantage_worth_the_name(size):
    """[0, 0, 0, 1] would have 1.73 whatever it is multiplied by."""
    one = np.array([0.0, 0.0, 0.0, 1.0])
    for rewards in (size * (1 + 1e-7 * one), -size * (1 - 1e-7 * one)):
        (row,) = losses.advantages(np.float32(rewards)[None], "mean-std")
        assert np.abs(row).max() < 2e-3
    (row,) = losses.advantages(np.float32(size * (1 + 0.01 * one))[None], "mean-std")
    if size >= 0.3:  # 1% of the size is a difference
        same(row, (one - 0.25) / np.sqrt(3 / 16), 1e-3)


# --------------------------------------------------------------- KL from samples


def test_kl_k3_has_the_value_and_the_gradient_of_the_exact_kl_on_average():
    """Averages over samples are taken exactly: every word weighed by its chance."""
    rng = np.random.default_rng(0)
    logits, old_logits, reference = rng.standard_normal((3, 12))
    reference, old = log_softmax(reference), log_softmax(old_logits)

    def average(logits, old):
        policy = jax.nn.log_softmax(logits)
        old = jax.lax.stop_gradient(old)
        return jnp.sum(jnp.exp(old) * losses.kl_k3(policy, jnp.asarray(reference), old))

    def exact(logits):
        return exact_kl(log_softmax(logits), reference)

    on_policy = jax.value_and_grad(lambda x: average(x, jax.nn.log_softmax(x)))
    off_policy = jax.value_and_grad(lambda x: average(x, jnp.asarray(old)))
    for estimate in (on_policy, off_policy):
        value, gradient = estimate(jnp.asarray(logits))
        same(value, exact(logits))
        same(gradient, slopes(exact, logits), 1e-7)


def test_surprise_as_an_advantage_has_the_gradient_of_the_entropy_on_average():
    logits = np.random.default_rng(0).standard_normal(12)

    def entropy(logits):
        return -np.sum(np.exp(log_softmax(logits)) * log_softmax(logits))

    def average(logits):
        policy = jax.nn.log_softmax(logits)
        chances = jnp.exp(policy)
        more = losses.surprise(policy, -jnp.sum(chances * policy))
        weighed = jax.lax.stop_gradient(chances) * more
        return jnp.sum(weighed * policy), jnp.sum(weighed)

    gradient, mean = jax.grad(average, has_aux=True)(jnp.asarray(logits))
    same(gradient, slopes(entropy, logits), 1e-7)
    same(mean, 0.0)


def test_without_the_factor_k3_has_the_gradient_of_the_kl_the_other_way_round():
    rng = np.random.default_rng(1)
    logits, reference = rng.standard_normal(12), log_softmax(rng.standard_normal(12))

    def plain_k3(logits):
        policy = jax.nn.log_softmax(logits)
        weights = jax.lax.stop_gradient(jnp.exp(policy))
        x = jnp.asarray(reference) - policy
        return jnp.sum(weights * (jnp.exp(x) - x - 1))

    gradient = jax.grad(plain_k3)(jnp.asarray(logits))
    other_way = slopes(lambda x: exact_kl(reference, log_softmax(x)), logits)
    right_way = slopes(lambda x: exact_kl(log_softmax(x), reference), logits)
    same(gradient, other_way, 1e-7)
    assert np.abs(gradient - right_way).max() > 0.01


# ---------------------------------------------------------------------- imitation


@few
@given(r=rollouts)
def test_sft_loss_is_minus_the_mean_log_probability_of_the_answer(r):
    logprobs, mask = r["new"][0], r["mask"][0]
    slope = jax.jit(jax.value_and_grad(losses.sft_loss, has_aux=True))
    (loss, metrics), gradient = slope(logprobs, mask)
    total, tokens = 0.0, 0
    for b, t in np.ndindex(*mask.shape):
        if mask[b, t]:
            total, tokens = total - logprobs[b, t], tokens + 1
    same(loss, total / max(tokens, 1))
    same(gradient, -mask / max(tokens, 1), 1e-7)
    assert metrics["weight"] == tokens


# ------------------------------------------------------------------------- errors


def test_wrong_shapes_and_switches_are_refused_with_the_remedy():
    r = rollout(8, 1, 2, 3)
    new, old, advantage, mask = (r[n] for n in ("new", "old", "advantages", "mask"))
    right, shapes = (new, old, advantage, mask), "one mask entry per token"
    for arguments, switches, message in (
        ((new, old, advantage, mask[..., :1]), {}, shapes),
        ((new, old[:, :1], advantage, mask), {}, shapes),
        ((new, old, advantage[:, :1], mask), {}, shapes),
        (right, {"level": "word"}, "sequence-token"),
        (right, {"aggregate": "mean"}, "sequence-mean"),
        (right, {"aggregate": "constant"}, "longest answer"),
        (right, {"beta": 0.1}, "reference_logprobs_PGT"),
    ):
        with pytest.raises(ValueError, match=message):
            losses.policy_gradient_loss(*arguments, **switches)
    with pytest.raises(ValueError, match="at least two"):
        losses.advantages(jnp.ones((3, 1)))
    with pytest.raises(ValueError, match="leave-one-out"):
        losses.advantages(jnp.ones((3, 2)), "median")
