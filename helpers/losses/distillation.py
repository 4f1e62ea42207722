"""How far a student's next-token distribution is from its teacher's.

The divergences take log-probabilities over a shared vocabulary, student first, and
give one number per token, so that a vocabulary of 262k words can be treated a chunk of
tokens at a time; `distillation_loss` takes the mean. It matters who does the averaging:

    forward KL   Σ p_teacher (log p_teacher - log p_student)   cover all it says
    reverse KL   Σ p_student (log p_student - log p_teacher)   say nothing it would not

Axes: N tokens, V words of the vocabulary, K words the teacher kept.
"""

import jax
import jax.numpy as jnp

from helpers.losses.means import chosen, mean_over_tokens, wide


def kl(log_p_NV, log_q_NV):
    """The exact KL(p ‖ q) per token, in nats: the mean under p of log p - log q.

    Args:
      log_p_NV: log-probabilities of the distribution that does the averaging; a word of
        probability 0 (-inf) adds nothing.
      log_q_NV: log-probabilities of the other one.

    Returns:
      One number per token (N), float32; infinite where p allows a word that q forbids.
    """
    log_p_NV, log_q_NV = wide(log_p_NV), wide(log_q_NV)
    p_NV = jnp.exp(log_p_NV)
    return jnp.sum(p_NV * jnp.where(p_NV > 0, log_p_NV - log_q_NV, 0), axis=-1)


def forward_kl(student_NV, teacher_NV):
    """KL(teacher ‖ student): whatever the teacher may say must stay possible.

    Args:
      student_NV: the student's log-probabilities.
      teacher_NV: the teacher's log-probabilities over the same vocabulary.

    Returns:
      One number per token (N). Its gradient is that of the cross-entropy with the
      teacher's distribution in place of a label (Hinton et al., 1503.02531).
    """
    return kl(teacher_NV, student_NV)


def reverse_kl(student_NV, teacher_NV):
    """KL(student ‖ teacher): the student settles on what the teacher finds likely.

    Args:
      student_NV: the student's log-probabilities.
      teacher_NV: the teacher's log-probabilities over the same vocabulary.

    Returns:
      One number per token (N), the loss of on-policy distillation (2306.08543).
    """
    return kl(student_NV, teacher_NV)


def jsd(student_NV, teacher_NV, beta=0.5):
    """Generalised Jensen-Shannon divergence: both are held against their mixture.

    β KL(teacher ‖ mix) + (1-β) KL(student ‖ mix), mix = β teacher + (1-β) student.
    Divided by β it becomes the forward KL as β → 0; divided by 1-β, the reverse KL as
    β → 1. It is bounded, so a word that only one of the two knows cannot dominate.

    Args:
      student_NV: the student's log-probabilities.
      teacher_NV: the teacher's log-probabilities over the same vocabulary.
      beta: the teacher's share of the mixture, strictly between 0 and 1.

    Returns:
      One number per token (N). Source: GKD, 2306.13649, eq. 1.

    Raises:
      ValueError: beta at or beyond an end, where the divergence is 0 for any student.
    """
    if not 0 < beta < 1:
        raise ValueError(
            f"jsd needs 0 < beta < 1, not {beta}: at the ends it is 0 for any student. "
            "Its limits are forward_kl (beta → 0) and reverse_kl (beta → 1)."
        )
    student_NV, teacher_NV = wide(student_NV), wide(teacher_NV)
    mix_NV = beta * jnp.exp(teacher_NV) + (1 - beta) * jnp.exp(student_NV)
    log_mix_NV = jnp.log(jnp.where(mix_NV > 0, mix_NV, 1))  # 0: a word neither can say
    return beta * kl(teacher_NV, log_mix_NV) + (1 - beta) * kl(student_NV, log_mix_NV)


def top_k_forward_kl(student_NV, teacher_NK, ids_NK):
    """Forward KL when only the teacher's K likeliest words were kept.

    What the teacher gave to all other words is one more bucket, the tail, held against
    what the student gives to them; without it nothing says how much the student may
    leave there. With K = V the tail is empty and this is `forward_kl`.

    Args:
      student_NV: the student's log-probabilities over the whole vocabulary.
      teacher_NK: the teacher's log-probabilities of its K likeliest words, as they were
        over the whole vocabulary: not normalised again over the K.
      ids_NK: which words these are, int32, no word twice.

    Returns:
      One number per token (N), never above the forward KL over the whole vocabulary.
    """
    student_NK = jnp.take_along_axis(wide(student_NV), ids_NK, axis=-1)
    return forward_kl(_with_tail(student_NK), _with_tail(wide(teacher_NK)))


def sampled_reverse_kl(logprobs, teacher_logprobs, mask):
    """KL(student ‖ teacher) from the sampled tokens alone: all that an API gives away.

    The gap log p - log q is held constant and pushes down log p of the tokens the
    teacher likes less. Differentiating the gap itself would teach nothing: the mean of
    ∇ log p over a model's own samples is 0, whatever the teacher says.

    Args:
      logprobs: the sampled tokens under the student, which sampled them.
      teacher_logprobs: the same tokens under the teacher.
      mask: 1 for tokens the student chose.

    Returns:
      The estimated KL per token with the gradient sg(log p - log q) ∇ log p, and
      {"weight": the number of tokens}. Source: Thinking Machines, "On-policy
      distillation" (2025).
    """
    logprobs = chosen(logprobs, mask)
    constant = jax.lax.stop_gradient(logprobs)
    gap = constant - jax.lax.stop_gradient(chosen(teacher_logprobs, mask))
    return distillation_loss(gap + gap * (logprobs - constant), mask)


def distillation_loss(divergences, mask):
    """One mean of any divergence above over all answer tokens of the batch.

    Args:
      divergences: one number per token, in nats, any shape.
      mask: 1 for tokens of the answer, of the same shape.

    Returns:
      The scalar loss, and {"weight": the number of tokens}.
    """
    loss, weight = mean_over_tokens(divergences, mask)
    return loss, {"weight": weight}


def _with_tail(logprobs_NK):
    """Appends the log-probability of all words that are not listed."""
    tail_N1 = 1 - jnp.sum(jnp.exp(logprobs_NK), axis=-1, keepdims=True)
    rounding = jnp.finfo(logprobs_NK.dtype).eps
    return jnp.concatenate([logprobs_NK, jnp.log(jnp.maximum(tail_N1, rounding))], -1)
