"""What a lesson minimises: a model and a batch in, a loss and its metrics out.

Each function makes an *objective* (`contracts.Objective`), which the trainer
differentiates. It runs the model and hands log-probabilities to
`helpers.losses`, where the mathematics is. An objective that compares the model with
itself before the first of several updates is an `OffPolicyObjective`.
"""

import jax
import jax.numpy as jnp

from helpers import losses
from helpers.losses.distillation import distillation_loss, reverse_kl
from helpers.losses.means import masked_mean, sft_loss
from helpers.losses.policy_gradient import CLIP, GSPO_CLIP
from helpers.losses.preferences import dpo_loss, orpo_loss
from helpers.model.logprobs import CHUNK, all_logprobs, in_chunks
from helpers.model.scoring import group_logprobs, hidden_targets_mask, token_logprobs
from helpers.training.update import Objective, OffPolicyObjective


def sft(chunk: int = CHUNK) -> Objective:
    """Imitate: cross-entropy on the answer tokens of packed rows.

    Args:
      chunk: tokens whose logits may exist at once.
    """

    def objective(model, batch):
        hidden, targets, mask = hidden_targets_mask(model, batch)
        logprobs, entropy = token_logprobs(model, hidden, targets, chunk, mask)
        loss, metrics = sft_loss(logprobs, mask)
        return loss, metrics | {"entropy": masked_mean(entropy, mask)}

    return objective


def policy_gradient(
    *,
    clip=CLIP,
    clips="gain",
    level="token",
    aggregate="token-mean",
    constant_length=None,
    beta=0.0,
    sampler_cap=None,
    off_policy_limit=None,
    entropy_bonus=0.0,
    chunk: int = CHUNK,
) -> OffPolicyObjective:
    """Reinforce: GRPO and its relatives on groups of scored answers.

    The old policy is the model itself before the first update of a batch, as the
    trainer computes it. What the sampler noted is the same policy with other rounding:
    `logprob_gap` says how far the two are apart, on average per token.

    Args:
      sampler_cap: the most that a token may count to make up for the sampler's
        rounding, 2 is usual; or a pair (0.5, 5) to leave out all tokens beyond it
        (`losses.sampler_weights`). None: all count the same. With it the metric
        `kl_sample_train` estimates KL(sampler ‖ old policy), an alarm above 0.01.
      off_policy_limit: nats per token between sampler and policy beyond which a bad
        answer does not count (`losses.off_policy_mask`). None: all count.
      entropy_bonus: weight of the entropy of each prediction beside the reward, so that
        the policy keeps exploring (`losses.surprise`).

    The other arguments are those of `losses.policy_gradient_loss`; a clip of one number
    is for both sides. With beta above 0 the trainer needs the reference model:
    `Trainer(..., frozen=(reference,))`.
    """
    clip = (clip, clip) if isinstance(clip, int | float) else clip

    def scores(model, batch):
        logprobs, entropy = group_logprobs(model, batch, chunk, batch["loss_mask"])
        return {"logprobs": logprobs, "entropy": entropy}

    def loss(scores, batch, *reference):
        mask, old_logprobs = batch["loss_mask"], batch["old_logprobs"]
        sampled = batch["logprobs"]
        reference_logprobs = weights = None
        advantages = batch["advantages"]
        if entropy_bonus:
            more = losses.surprise(scores["logprobs"], scores["entropy"])
            advantages = advantages[..., None] + entropy_bonus * more
        if beta and reference:
            reference_logprobs, _ = group_logprobs(reference[0], batch, chunk, mask)
            reference_logprobs = jax.lax.stop_gradient(reference_logprobs)
        if sampler_cap:
            weights = losses.sampler_weights(old_logprobs, sampled, mask, sampler_cap)
        if off_policy_limit is not None:
            answers = scores["logprobs"], sampled, batch["advantages"], mask
            is_trained = losses.off_policy_mask(*answers, off_policy_limit)
            weights = is_trained if weights is None else is_trained * weights
        value, metrics = losses.policy_gradient_loss(
            scores["logprobs"],
            old_logprobs,
            advantages,
            mask,
            clip=clip,
            clips=clips,
            level=level,
            aggregate=aggregate,
            constant_length=constant_length,
            reference_logprobs_PGT=reference_logprobs,
            beta=beta,
            weights_PGT=weights,
        )
        gap = masked_mean(jnp.abs(old_logprobs - sampled), mask)
        metrics |= {"entropy": masked_mean(scores["entropy"], mask), "logprob_gap": gap}
        if weights is not None:
            divergence = losses.kl_k3(sampled, old_logprobs, sampled)
            metrics["kl_sample_train"] = masked_mean(divergence, mask)
        return value, metrics

    return OffPolicyObjective(scores, loss, weighs=bool(sampler_cap))


def gspo(*, clip=GSPO_CLIP, **settings) -> OffPolicyObjective:
    """GRPO with one ratio per answer instead of one per token (2507.18071).

    The arguments are those of `policy_gradient`.
    """
    return policy_gradient(
        clip=clip, level="sequence", aggregate="sequence-mean", **settings
    )


def dpo(*, beta: float = 0.1, chunk: int = CHUNK) -> Objective:
    """Prefer: DPO on pairs of answers (2305.18290), as `batches.pairs` makes them.

    The trainer's `frozen` is the reference, as a rule a copy of the model before it is
    trained. With two answers to a prompt a pair is a group of two, and costs as much.

    Args:
      beta: how hard the model is held to the reference (`losses.preferences`).
      chunk: tokens whose logits may exist at once.
    """

    def objective(model, batch, reference):
        mask = batch["loss_mask"]
        logprobs, entropy = group_logprobs(model, batch, chunk, mask)
        before, _ = group_logprobs(reference, batch, chunk, mask)
        loss, metrics = dpo_loss(logprobs, before, mask, beta=beta)
        return loss, metrics | {"entropy": masked_mean(entropy, mask)}

    return objective


def orpo(*, strength: float = 0.1, chunk: int = CHUNK) -> Objective:
    """Prefer and imitate at once: ORPO on pairs (2403.07691), without a reference.

    Args:
      strength: weight of preferring beside imitating (`losses.preferences`).
      chunk: tokens whose logits may exist at once.
    """

    def objective(model, batch):
        logprobs, entropy = group_logprobs(model, batch, chunk, batch["loss_mask"])
        loss, metrics = orpo_loss(logprobs, batch["loss_mask"], strength=strength)
        return loss, metrics | {"entropy": masked_mean(entropy, batch["loss_mask"])}

    return objective


# Two tables of one tokenizer are padded to sizes less than this apart, as 151,936 and
# 152,064 rows in Qwen2.5 of 1.5B and 7B.
MOST_PADDING = 1024


def distillation(divergence=reverse_kl, *, vocabulary=None, chunk=CHUNK) -> Objective:
    """Learn from a teacher's whole next-token distribution, on rows or on groups.

    With packed rows the text is given (offline distillation); with groups the student
    sampled it itself (on-policy distillation). The teacher is the trainer's `frozen`.

    Args:
      divergence: `divergence(student_NV, teacher_NV)` of log-probabilities, one number
        per token: `losses.forward_kl`, `losses.reverse_kl`, a partial of `losses.jsd`.
      vocabulary: entries of the tokenizer that both share, `len(tokenizer)`. Tables may
        be padded to more rows, each to its own number; those are left out. None: the
        rows of the smaller table.
      chunk: tokens whose two sets of logits may exist at once.
    """

    def objective(model, batch, teacher):
        sizes = model.config.vocab_size, teacher.config.vocab_size
        if vocabulary is None and max(sizes) - min(sizes) >= MOST_PADDING:
            raise ValueError(
                "The vocabularies of student and teacher have {} and {} entries, and "
                "distillation compares them entry by entry. If both have one tokenizer "
                "(`text.require_same_tokens`), pass vocabulary=len(tokenizer). "
                "Otherwise take both from one family.".format(*sizes)
            )
        shared = vocabulary or min(sizes)
        hidden, targets, mask = hidden_targets_mask(model, batch)
        teacher_hidden, _, _ = hidden_targets_mask(teacher, batch)

        def compare(table_VD, teacher_table_VD, hidden_ND, teacher_ND, targets_N):
            student_NV, chosen_N = all_logprobs(
                hidden_ND, table_VD, targets_N, model.config.softcap
            )
            teacher_NV, _ = all_logprobs(
                teacher_ND, teacher_table_VD, targets_N, teacher.config.softcap
            )
            return divergence(student_NV, teacher_NV), chosen_N

        flat = [x.reshape(-1, x.shape[-1]) for x in (hidden, teacher_hidden)]
        both = model.table()[:shared], teacher.table()[:shared]
        divergence_N, chosen_N = in_chunks(
            compare, *both, (*flat, targets.reshape(-1)), chunk
        )
        loss, metrics = distillation_loss(divergence_N, mask.reshape(-1))
        return loss, metrics | {"nll": -masked_mean(chosen_N, mask.reshape(-1))}

    return objective
