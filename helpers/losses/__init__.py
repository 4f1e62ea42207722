"""Every loss of the course, a pure function of arrays."""

from helpers.losses import distillation
from helpers.losses.means import masked_mean, sft_loss
from helpers.losses.policy_gradient import (
    advantages,
    decoupled_rewards,
    gspo_loss,
    gspo_token_loss,
    importance_ratio,
    kl_k3,
    off_policy_mask,
    policy_gradient_loss,
    sampler_weights,
    surprise,
)

__all__ = [
    "advantages",  # how much better than its group
    "decoupled_rewards",  # GDPO: several rewards, each normalised before adding
    "distillation",  # forward and reverse KL, and their relatives
    "gspo_loss",  # one ratio per answer
    "gspo_token_loss",  # the same, token by token
    "importance_ratio",  # policy over old policy
    "kl_k3",  # an estimate of the KL
    "masked_mean",  # over the tokens that count
    "off_policy_mask",  # which bad answers are too old to learn from
    "policy_gradient_loss",  # GRPO and its relatives
    "sampler_weights",  # what makes up for another engine's rounding
    "sft_loss",  # cross-entropy on answers
    "surprise",  # of sampled tokens, for an entropy bonus
]
