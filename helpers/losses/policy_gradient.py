"""The losses of reinforcement: GRPO and its relatives, and what they are made of.

Pure functions of arrays: log-probabilities of tokens, masks, advantages. Each returns
the loss and a dictionary of metrics, in which "weight" is the number the mean was
divided by (`helpers.losses.means` says why). Arithmetic is float32, whatever comes in.

Axes: B rows, P prompts, G answers per prompt, T tokens. A mask is 1 on the tokens the
model chose, its end-of-sequence included, and 0 on prompts, tool results and padding.
"""

import jax
import jax.numpy as jnp

from helpers.losses.means import (
    answer_means,
    chosen,
    masked_mean,
    mean_over_answers,
    mean_over_constant,
    mean_over_tokens,
    wide,
)

FLOOR = 1e-4  # of a standard deviation, see `advantages`
CLIP = (0.2, 0.28)  # below and above a token's ratio of 1, as in DAPO
GSPO_CLIP = (3e-4, 4e-4)  # of an answer's ratio


def advantages(rewards_PG, kind="mean"):
    """How much better each answer did than the others to the same prompt.

        mean            r - mean(r)                        Dr. GRPO, 2503.20783
        mean-std        (r - mean(r)) / std(r)             GRPO, 2402.03300
        leave-one-out   r - mean(rewards of the others)    RLOO, 2402.14740

    Dividing by the standard deviation gives most weight to questions that are almost
    always, or almost never, answered right; that is why it is not the default. It would
    also blow up a difference in the seventh digit, which is rounding, to ±1. So a
    standard deviation below a floor counts as that floor: 1e-4 (TRL adds this number),
    or 1e-4 of the group's largest reward if that is larger than 1.

    Args:
      rewards_PG: one reward per answer.
      kind: which of the three.

    Returns:
      Advantages (P,G), float32; exactly 0 in a group whose rewards are all equal.

    Raises:
      ValueError: an unknown kind, or groups of one, which have nothing to compare.
    """
    group = rewards_PG.shape[-1]
    if group < 2:
        raise ValueError(
            f"rewards of shape {rewards_PG.shape} are groups of {group}: an answer is "
            "compared with the others to its prompt. Sample at least two per prompt."
        )
    rewards_PG = wide(rewards_PG)
    largest_P1 = jnp.max(jnp.abs(rewards_PG), axis=-1, keepdims=True)
    # Counted from the first answer's, equal rewards are 0 before anything is rounded.
    rewards_PG -= rewards_PG[..., :1]
    centred_PG = rewards_PG - jnp.mean(rewards_PG, axis=-1, keepdims=True)
    if kind == "mean":
        return centred_PG
    if kind == "mean-std":
        std_P1 = jnp.sqrt(jnp.mean(centred_PG**2, axis=-1, keepdims=True))
        return centred_PG / jnp.maximum(std_P1, FLOOR * jnp.maximum(1, largest_P1))
    if kind == "leave-one-out":
        return centred_PG * group / (group - 1)
    raise ValueError(
        f"unknown kind of advantage {kind!r}: use mean, mean-std or leave-one-out."
    )


def decoupled_rewards(rewards_KPG, weights_K):
    """GDPO's sum of several rewards: each is normalised in its group before adding.

        Σ_k w_k (r_k - mean(r_k)) / std(r_k)           GDPO, 2601.05242, eqs. 4 and 7

    A plain sum can be equal for all answers although its parts are not.

    Args:
      rewards_KPG: one reward per answer of each of K kinds.
      weights_K: how much each kind counts.

    Returns:
      Sums (P,G), float32, centred in each group; `Rollouts` divides them by their
      standard deviation over the batch (eq. 6).
    """
    normalised_KPG = advantages(rewards_KPG, "mean-std")
    return jnp.einsum("k,kpg->pg", jnp.asarray(weights_K), normalised_KPG)


def policy_gradient_loss(
    logprobs_PGT,
    old_logprobs_PGT,
    advantages_PG,
    mask_PGT,
    *,
    clip=CLIP,
    clips="gain",
    level="token",
    aggregate="token-mean",
    constant_length=None,
    reference_logprobs_PGT=None,
    beta=0.0,
    weights_PGT=None,
):
    """Clipped policy-gradient loss of GRPO and its relatives.

    A gain and β KL for each token, then one mean. What is clipped is the gain or, in
    later methods, only a weight before the gradient, which sg(·) holds constant:

        gain     min(ratio · A, clip(ratio, 1 - low, 1 + high) · A)
                 GRPO (2402.03300, eq. 3), DAPO (2503.14476, eq. 8), GSPO (2507.18071,
                 eq. 5): a token beyond the clip has no gradient
        weight   sg(clip(ratio, 1 - low, 1 + high)) · A · log π
                 CISPO (2506.13585, eqs. 4-5): every token keeps its gradient. With
                 clip=(0, 0) the weight is 1, REINFORCE as in RLOO (2402.14740)

    Args:
      logprobs_PGT: the sampled tokens under the policy being trained.
      old_logprobs_PGT: the same tokens under the policy before the first update of the
        batch, computed in the same way; a constant.
      advantages_PG: one per answer, centred in its group; or one per token (P,G,T).
      mask_PGT: 1 for tokens the model chose, 0 for tool results and padding.
      clip: how far below and above 1 the ratio may move (DAPO's clip-higher).
      clips: what that holds: gain or weight.
      level: whose ratio: token, sequence or sequence-token (`importance_ratio`).
      aggregate: which mean: token-mean, sequence-mean or constant
        (`helpers.losses.means`).
      constant_length: tokens an answer may have; for the constant mean only.
      reference_logprobs_PGT: the same tokens under the model to stay near, or None.
      beta: weight of the KL to that model (`kl_k3`).
      weights_PGT: how much each token's loss counts (`sampler_weights`); None: 1.

    Returns:
      The scalar loss, and its metrics: weight; and as means over all tokens, whatever
      the aggregate, clip_fraction (tokens whose gain, or weight, the clip changed),
      ratio_mean, approx_kl (how far the policy has moved in this batch) and, with a
      reference, kl_reference.

    Raises:
      ValueError: shapes that differ, an unknown switch, beta without a reference.
    """
    if reference_logprobs_PGT is None and beta:
        raise ValueError(f"beta={beta} needs reference_logprobs_PGT; or set beta=0.")
    logprobs_PGT = chosen(logprobs_PGT, mask_PGT)
    old_PGT = chosen(old_logprobs_PGT, mask_PGT)
    advantages_PGT = _per_token(advantages_PG, mask_PGT)

    ratio_PGT = importance_ratio(logprobs_PGT, old_PGT, mask_PGT, level)
    clipped_PGT = jnp.clip(ratio_PGT, 1 - clip[0], 1 + clip[1])
    gain_PGT, cut_PGT = _gain(
        clips, ratio_PGT, clipped_PGT, advantages_PGT, logprobs_PGT
    )
    metrics = {
        "clip_fraction": masked_mean(cut_PGT, mask_PGT),
        "ratio_mean": masked_mean(ratio_PGT, mask_PGT),
        "approx_kl": masked_mean(_k3(old_PGT, logprobs_PGT), mask_PGT),
    }
    loss_PGT = -gain_PGT
    if reference_logprobs_PGT is not None:
        reference_PGT = chosen(reference_logprobs_PGT, mask_PGT)
        kl_PGT = kl_k3(logprobs_PGT, reference_PGT, old_PGT)
        metrics["kl_reference"] = masked_mean(kl_PGT, mask_PGT)
        loss_PGT += beta * kl_PGT
    if weights_PGT is not None:
        loss_PGT *= chosen(weights_PGT, mask_PGT)
    loss, metrics["weight"] = _mean(loss_PGT, mask_PGT, aggregate, constant_length)
    return loss, metrics


def gspo_loss(logprobs_PGT, old_logprobs_PGT, advantages_PG, mask_PGT, clip=GSPO_CLIP):
    """GSPO: one ratio per answer, the geometric mean of its tokens' ratios.

    -mean over answers of min(s A, clip(s, 1 - low, 1 + high) A). A mean over a whole
    answer moves little, so the clip is hundreds of times narrower than GRPO's; with a
    single update per rollout s is 1 and nothing is clipped at all. GSPO-token (eqs. 13
    and 14), which has an advantage for every token, is `policy_gradient_loss` with the
    level sequence-token.

    Args and returns: those of `policy_gradient_loss`. Source: 2507.18071, eqs. 5-7.
    """
    return policy_gradient_loss(
        logprobs_PGT,
        old_logprobs_PGT,
        advantages_PG,
        mask_PGT,
        clip=clip,
        level="sequence",
        aggregate="sequence-mean",
    )


def kl_k3(logprobs, reference_logprobs, old_logprobs):
    """KL(policy ‖ reference) from the sampled tokens, right in value and in gradient.

    k3 = r - 1 - log r with r = π_ref / π is never negative, and its mean over samples
    of π is the KL. The mean of its gradient is another matter, for π also decides which
    tokens are sampled: alone it is the gradient of KL(reference ‖ policy). The factor
    π / π_old, whose value on-policy is 1, puts that right.

    Args:
      logprobs: the sampled tokens under the policy being trained.
      reference_logprobs: the same tokens under the model to stay near.
      old_logprobs: the same tokens under the policy that sampled them, a constant.

    Returns:
      One estimate per token, in nats. Sources: Schulman, "Approximating KL divergence"
      (2020), for k3; DeepSeek-V3.2 (2512.02556, eq. 7) for the factor.
    """
    ratio = jnp.exp(bounded(wide(logprobs) - wide(old_logprobs)))
    return ratio * _k3(wide(logprobs), wide(reference_logprobs))


def _k3(logprobs, other_logprobs):
    """An estimate of KL(π ‖ other) at each token sampled from π."""
    log_ratio = bounded(other_logprobs - logprobs)
    return jnp.expm1(log_ratio) - log_ratio


def _gain(clips, ratio_PGT, clipped_PGT, advantages_PGT, logprobs_PGT):
    """What each token earns, and where the clip changed it."""
    gain_PGT, bounded_PGT = ratio_PGT * advantages_PGT, clipped_PGT * advantages_PGT
    if clips == "gain":
        return jnp.minimum(gain_PGT, bounded_PGT), bounded_PGT < gain_PGT
    if clips == "weight":
        weight_PGT = jax.lax.stop_gradient(bounded_PGT)
        return weight_PGT * logprobs_PGT, bounded_PGT != gain_PGT
    raise ValueError(f"unknown clips={clips!r}: the clip holds the gain or the weight.")


def _per_token(advantages, mask_PGT):
    """One advantage per token; those given per answer hold for all its tokens."""
    if advantages.shape == mask_PGT.shape[:-1]:
        advantages = jnp.broadcast_to(advantages[..., None], mask_PGT.shape)
    return chosen(advantages, mask_PGT)


def _mean(values_PGT, mask_PGT, aggregate, constant_length):
    """The chosen mean of `helpers.losses.means`, and its weight."""
    if aggregate == "token-mean":
        return mean_over_tokens(values_PGT, mask_PGT)
    if aggregate == "sequence-mean":
        return mean_over_answers(values_PGT, mask_PGT)
    if aggregate == "constant" and constant_length:
        return mean_over_constant(values_PGT, mask_PGT, constant_length)
    raise ValueError(
        f"unknown aggregate {aggregate!r} with constant_length={constant_length}: use "
        "token-mean, sequence-mean, or constant with the longest answer's length."
    )


# Beyond a factor of exp(20) = 5e8 a ratio says only "far away"; exp(89) is infinite.
FAR_AWAY = 20.0


def importance_ratio(logprobs_PGT, old_logprobs_PGT, mask_PGT, level="token"):
    """How much likelier the sampled tokens have become; exactly 1 where nothing moved.

        token            r_t = π(t) / π_old(t)                                    GRPO
        sequence         s = (Π r_t)^(1/length), the same for all its tokens      GSPO
        sequence-token   the value of s, but only token t's gradient        GSPO-token

    Args:
      logprobs_PGT: log-probabilities under the policy being trained.
      old_logprobs_PGT: log-probabilities under the policy before the first update.
      mask_PGT: 1 for tokens the model chose.
      level: which of the three.

    Returns:
      Ratios (P,G,T), float32.

    Raises:
      ValueError: an unknown level.
    """
    logprobs_PGT = chosen(logprobs_PGT, mask_PGT)
    log_ratio_PGT = logprobs_PGT - chosen(old_logprobs_PGT, mask_PGT)
    if level == "token":
        return jnp.exp(bounded(log_ratio_PGT))
    log_s_PG1 = answer_means(log_ratio_PGT, mask_PGT)[..., None]
    if level == "sequence":
        return jnp.exp(bounded(jnp.broadcast_to(log_s_PG1, mask_PGT.shape)))
    if level == "sequence-token":
        zero_PGT = logprobs_PGT - jax.lax.stop_gradient(logprobs_PGT)
        return jnp.exp(bounded(jax.lax.stop_gradient(log_s_PG1) + zero_PGT))
    raise ValueError(f"unknown level {level!r}: use token, sequence or sequence-token.")


def sampler_weights(old_logprobs_PGT, sampler_logprobs_PGT, mask_PGT, cap):
    """How much each token counts, so that the sampler's answers stand for the policy's.

    With w = π_old / π_sampler a token counts

        min(w, cap)                      truncated, if the cap is one number
        w if low ≤ w ≤ high, else 0      masked, if it is a pair (IcePop)

    The sampler computes the same policy in another way
    (cached, in other pieces, elsewhere in int8), and where its rounding made a token
    likelier than the trainer finds it, that token comes too often. The cap bounds the
    variance; it leaves tokens that come too seldom a little short. A mask goes further:
    where the two disagree that much, it learns nothing.

    Args:
      old_logprobs_PGT: the sampled tokens as the trainer finds them.
      sampler_logprobs_PGT: the same tokens as noted when they were sampled.
      mask_PGT: 1 for tokens the model chose.
      cap: the largest weight, 2 is usual; or the least and the largest of those that
        are kept, of which (0.5, 5) is usual.

    Returns:
      Weights (P,G,T), float32, constants; 1 outside the mask.

    Raises:
      ValueError: a cap below 1, or a range without 1, would make all tokens count less.

    Sources: Ionides, "Truncated importance sampling" (2008); for samplers of language
    models Yao et al., "On the rollout-training mismatch in modern RL systems" (2025,
    openreview.net/forum?id=8MHqvb4lK9); for masks INTELLECT-3, 2512.16144, eq. 1.
    """
    low, high = cap if isinstance(cap, tuple) else (0, cap)
    if not low <= 1 <= high:
        raise ValueError(f"cap={cap} makes every token count less: choose 1 or more.")
    gap_PGT = chosen(old_logprobs_PGT, mask_PGT) - chosen(
        sampler_logprobs_PGT, mask_PGT
    )
    weights_PGT = jax.lax.stop_gradient(jnp.exp(bounded(gap_PGT)))
    if isinstance(cap, tuple):
        return jnp.where((weights_PGT >= low) & (weights_PGT <= high), weights_PGT, 0)
    return jnp.minimum(weights_PGT, cap)


def off_policy_mask(logprobs_PGT, sampler_logprobs_PGT, advantages_PG, mask_PGT, limit):
    """Which tokens count: none of a bad answer that the policy has moved away from.

        0 if A < 0 and the mean of log π_sampler - log π over the answer > limit, else 1

    A policy learns from its own mistakes. Those that only an older policy made are
    noise to it. Good answers count however old they are.

    Args:
      limit: δ, in nats per token. The others are those of `policy_gradient_loss`.

    Returns:
      0 or 1 for each token (P,G,T), constant. Source: DeepSeek-V3.2, 2512.02556, eq. 9.
    """
    gap_PGT = chosen(sampler_logprobs_PGT, mask_PGT) - chosen(logprobs_PGT, mask_PGT)
    far_PG1 = answer_means(gap_PGT, mask_PGT)[..., None] > limit
    return jnp.where(far_PG1 & (_per_token(advantages_PG, mask_PGT) < 0), 0.0, 1.0)


def surprise(logprobs, entropy):
    """How much less likely each sampled token was than the policy's tokens on average.

    Added to the advantages with a small weight it is an entropy bonus. The expectation
    of (-log π - H) ∇log π over tokens sampled from π is the gradient of the entropy H.

    Args:
      logprobs: the sampled tokens under the policy being trained.
      entropy: of the predictions from which they were sampled, in nats.

    Returns:
      One number per token, in nats, a constant; its mean over samples is 0. Sources:
      Williams and Peng, "Function optimization using connectionist reinforcement
      learning algorithms" (1991); A3C (1602.01783).
    """
    return jax.lax.stop_gradient(-wide(logprobs) - wide(entropy))


def bounded(log_ratio):
    """A log-ratio within ±FAR_AWAY, so that its exponential is finite."""
    return jnp.clip(log_ratio, -FAR_AWAY, FAR_AWAY)
