"""Means over the tokens that count: the last line of every loss, and all of SFT's.

A mask is 1 on the tokens the model chose, its end-of-sequence included, and 0 on
prompts, tool results and padding. What stands under a 0 has no say, be it NaN, and a
mask without any 1 gives the value 0 and the gradient 0.

Each mean comes with its weight, the number it was divided by, so that a batch cut into
pieces gives the value and the gradient of the whole: Σ weight_i mean_i / Σ weight_i.
"""

import jax.numpy as jnp


def mean_over_tokens(values, mask):
    """The mean of the values whose mask is 1, every token counting the same.

    Args:
      values: one number per token, any shape.
      mask: 1 for the tokens that count, of the same shape.

    Returns:
      The mean, and its weight: the number of tokens.
    """
    weight = jnp.sum(mask > 0, dtype=jnp.float32)
    return jnp.sum(chosen(values, mask)) / jnp.where(weight > 0, weight, 1), weight


def masked_mean(values, mask):
    """The mean of the values whose mask is 1, 0 if there is none: for metrics."""
    return mean_over_tokens(values, mask)[0]


def mean_over_answers(values_PGT, mask_PGT):
    """The mean of the answers' own means, every answer counting the same.

    A token of a long answer counts less than one of a short answer: a long wrong answer
    is hardly punished, which is why GRPO's successors left this mean (2503.20783).

    Args:
      values_PGT: one number per token; the last axis is time.
      mask_PGT: 1 for the tokens that count. Answers without any are left out.

    Returns:
      The mean, and its weight: the number of answers with at least one token.
    """
    filled_PG = jnp.any(mask_PGT > 0, axis=-1)
    return mean_over_tokens(answer_means(values_PGT, mask_PGT), filled_PG)


def mean_over_constant(values_PGT, mask_PGT, length):
    """The sum divided by the room there was, whatever the answers filled of it.

    Args:
      values_PGT: one number per token; the last axis is time.
      mask_PGT: 1 for the tokens that count.
      length: tokens an answer may have, the same for all batches (Dr. GRPO,
        2503.20783).

    Returns:
      The sum over answers * length, and that divisor as its weight.
    """
    weight = jnp.float32(mask_PGT[..., 0].size * length)
    return jnp.sum(chosen(values_PGT, mask_PGT)) / weight, weight


def answer_means(values_PGT, mask_PGT):
    """The mean over each answer's own tokens (P,G); 0 for an answer without any."""
    lengths_PG = jnp.sum(mask_PGT > 0, axis=-1)
    sums_PG = jnp.sum(chosen(values_PGT, mask_PGT), axis=-1)
    return sums_PG / jnp.maximum(lengths_PG, 1)


def chosen(values, mask):
    """The values in float32, with 0 in place of whatever the mask leaves out.

    Args:
      values: one number per token, any shape and dtype.
      mask: 1 for the tokens that count, of the same shape.

    Raises:
      ValueError: the shapes differ; broadcasting would silently count tokens twice.
    """
    if values.shape != mask.shape:
        raise ValueError(
            f"values of shape {values.shape} but a mask of shape {mask.shape}: a loss "
            "needs exactly one mask entry per token. Compare the axes of the two."
        )
    return jnp.where(mask > 0, wide(values), 0)


def wide(array):
    """The array in float32 at least: bfloat16 has 8 bits, too few for a sum."""
    return jnp.asarray(array, jnp.promote_types(jnp.result_type(array), jnp.float32))


def sft_loss(logprobs_BT, mask_BT):
    """Cross-entropy on the answer: minus the mean log-probability of its tokens.

    Args:
      logprobs_BT: each token's log-probability given those before it, in nats.
      mask_BT: 1 for tokens to imitate, 0 for the question and padding.

    Returns:
      The scalar loss, and {"weight": the number of tokens imitated}.
    """
    mean, weight = mean_over_tokens(logprobs_BT, mask_BT)
    return -mean, {"weight": weight}
