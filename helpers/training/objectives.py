"""What a lesson minimises: a model and a batch in, a loss and its metrics out.

An *objective* is `objective(model, batch, *frozen) -> (loss, metrics)`; the trainer
differentiates it. Here each one runs the model and hands log-probabilities to
`helpers.losses`, where the mathematics is.
"""

import jax
import jax.numpy as jnp

from helpers.losses.distillation import distillation_loss, reverse_kl
from helpers.losses.means import masked_mean
from helpers.losses.policy_gradient import policy_gradient_loss
from helpers.losses.supervised import sft_loss
from helpers.model.scoring import (
    CHUNK,
    group_logprobs,
    hidden_targets_mask,
    in_chunks,
    token_logprobs,
)


def sft(chunk=CHUNK):
    """Imitate: cross-entropy on the answer tokens of packed rows.

    Args:
      chunk: tokens whose logits may exist at once.
    """

    def objective(model, batch):
        hidden, targets, mask = hidden_targets_mask(model, batch)
        logprobs, entropy = token_logprobs(model, hidden, targets, chunk)
        loss, metrics = sft_loss(logprobs, mask)
        return loss, metrics | {"entropy": masked_mean(entropy, mask)}

    return objective


def policy_gradient(
    *,
    clip=(0.2, 0.28),
    level="token",
    aggregate="token-mean",
    constant_length=None,
    beta=0.0,
    chunk=CHUNK,
):
    """Reinforce: GRPO and its relatives on groups of scored answers.

    Args are those of `losses.policy_gradient_loss`; with beta above 0 the trainer must
    be given the reference model: `Trainer(..., frozen=(reference,))`.
    """

    def objective(model, batch, *reference):
        logprobs, entropy = group_logprobs(model, batch, chunk)
        mask = batch["loss_mask"]
        reference_logprobs = None
        if beta and reference:
            reference_logprobs, _ = group_logprobs(reference[0], batch, chunk)
            reference_logprobs = jax.lax.stop_gradient(reference_logprobs)
        loss, metrics = policy_gradient_loss(
            logprobs,
            batch["logprobs"],
            batch["advantages"],
            mask,
            clip=clip,
            level=level,
            aggregate=aggregate,
            constant_length=constant_length,
            reference_logprobs_PGT=reference_logprobs,
            beta=beta,
        )
        gap = masked_mean(jnp.abs(logprobs - batch["logprobs"]), mask)
        return loss, metrics | {
            "entropy": masked_mean(entropy, mask),
            "logprob_gap": jax.lax.stop_gradient(gap),
        }

    return objective


def gspo(*, clip=(3e-4, 4e-4), chunk=CHUNK):
    """GRPO with one ratio per answer instead of one per token (2507.18071)."""
    return policy_gradient(
        clip=clip, level="sequence", aggregate="sequence-mean", chunk=chunk
    )


def distillation(divergence=reverse_kl, *, chunk=CHUNK):
    """Learn from a teacher's whole next-token distribution, on rows or on groups.

    With packed rows the text is given (offline distillation); with groups the student
    sampled it itself (on-policy distillation). The teacher is the trainer's `frozen`.

    Args:
      divergence: `divergence(student_NV, teacher_NV)` of log-probabilities, one number
        per token: `losses.forward_kl`, `losses.reverse_kl`, a partial of `losses.jsd`.
      chunk: tokens whose two sets of logits may exist at once.
    """

    def objective(model, batch, teacher):
        if teacher.config.vocab_size != model.config.vocab_size:
            raise ValueError(
                f"The teacher's vocabulary has {teacher.config.vocab_size} entries, "
                f"the student's {model.config.vocab_size}: distillation compares them "
                "entry by entry, so both need the same tokenizer."
            )
        hidden, targets, mask = hidden_targets_mask(model, batch)
        wise, _, _ = hidden_targets_mask(teacher, batch)

        read, read_wise = model.reader(), teacher.reader()

        def compare(hidden_ND, wise_ND, targets_N):
            student_NV = jax.nn.log_softmax(read(hidden_ND))
            teacher_NV = jax.nn.log_softmax(read_wise(wise_ND))
            chosen_N = jnp.take_along_axis(student_NV, targets_N[:, None], -1)[:, 0]
            return divergence(student_NV, teacher_NV), chosen_N

        flat = (_flat(hidden), _flat(jax.lax.stop_gradient(wise)), targets.reshape(-1))
        divergence_N, chosen_N = in_chunks(compare, flat, chunk)
        loss, metrics = distillation_loss(divergence_N, mask.reshape(-1))
        return loss, metrics | {"nll": -masked_mean(chosen_N, mask.reshape(-1))}

    return objective


def _flat(hidden):
    return hidden.reshape(-1, hidden.shape[-1])
