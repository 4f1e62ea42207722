"""Every loss of the course, a pure function of arrays."""

from helpers.losses import distillation  # forward and reverse KL, and their relatives
from helpers.losses.means import (
    masked_mean,  # over the tokens that count
    sft_loss,  # cross-entropy on answers
)
from helpers.losses.policy_gradient import (
    advantages,  # how much better than its group
    decoupled_rewards,  # GDPO: several rewards, each normalised before adding
    gspo_loss,  # one ratio per answer
    importance_ratio,  # policy over old policy
    kl_k3,  # an estimate of the KL
    off_policy_mask,  # which bad answers are too old to learn from
    policy_gradient_loss,  # GRPO and its relatives
    sampler_weights,  # what makes up for another engine's rounding
    surprise,  # of sampled tokens, for an entropy bonus
)
