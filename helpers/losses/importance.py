"""Ratios of probabilities: the policy to what it was, the trainer to the sampler.

Axes as in `helpers.losses`: P prompts, G answers per prompt, T tokens.
"""

import jax
import jax.numpy as jnp

from helpers.losses.means import answer_means, chosen

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

    min(π_old / π_sampler, cap). The sampler computes the same policy in another way
    (cached, in other pieces, elsewhere in int8), and where its rounding made a token
    likelier than the trainer finds it, that token comes too often. The cap bounds the
    variance; it leaves tokens that come too seldom a little short.

    Args:
      old_logprobs_PGT: the sampled tokens as the trainer finds them.
      sampler_logprobs_PGT: the same tokens as noted when they were sampled.
      mask_PGT: 1 for tokens the model chose.
      cap: the largest weight; 2 is usual.

    Returns:
      Weights (P,G,T), float32, constants; 1 outside the mask.

    Raises:
      ValueError: a cap below 1 would make all tokens count less.

    Sources: Ionides, "Truncated importance sampling" (2008); for samplers of language
    models Yao et al., "On the rollout-training mismatch in modern RL systems" (2025,
    openreview.net/forum?id=8MHqvb4lK9).
    """
    if cap < 1:
        raise ValueError(f"cap={cap} makes every token count less: choose 1 or more.")
    gap_PGT = chosen(old_logprobs_PGT, mask_PGT) - chosen(
        sampler_logprobs_PGT, mask_PGT
    )
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(bounded(gap_PGT)), cap))


def bounded(log_ratio):
    """A log-ratio within ±FAR_AWAY, so that its exponential is finite."""
    return jnp.clip(log_ratio, -FAR_AWAY, FAR_AWAY)
