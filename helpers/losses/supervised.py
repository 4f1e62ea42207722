"""The loss of imitation: cross-entropy on the tokens of an answer."""

from helpers.losses.means import mean_over_tokens


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
