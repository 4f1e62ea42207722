"""The losses of preference: DPO and ORPO, on pairs of answers to one prompt.

Pure functions of log-probabilities, each beside its equation. Nothing is sampled while
they train: the pairs are there before, and a loss only compares the two answers.

Axes: P pairs, 2 answers (0 is the chosen one, 1 the rejected one), T tokens. Arithmetic
is float32 at least, whatever comes in. A pair counts if both answers have a token under
the mask; others are left out, as is whatever stands under a 0.
"""

import jax
import jax.numpy as jnp

from helpers.losses.means import chosen, mean_over_tokens

CERTAIN = -1e-6  # nats per token; an answer that is surer than that has infinite odds


def dpo_loss(logprobs_P2T, reference_logprobs_P2T, mask_P2T, *, beta=0.1):
    """Direct Preference Optimisation: likelier than before, compared with the other.

        L = mean over pairs of -log σ(m),
        m = β [log π(chosen)/π_ref(chosen) - log π(rejected)/π_ref(rejected)]

    The log-probability of an answer is the sum over its tokens. β log π/π_ref is the
    reward that the policy stands for, so m is how much better it finds the chosen
    answer, and σ(m) the chance that a judge of Bradley and Terry's kind agrees.

    Args:
      logprobs_P2T: log-probabilities of the answers' tokens, in nats, under the policy.
      reference_logprobs_P2T: the same under the model that it started from; constants.
      mask_P2T: 1 for tokens of the answers, their end-of-turn included, else 0.
      beta: how hard the policy is held to the reference; larger is nearer.

    Returns:
      The scalar loss, and its metrics: weight, the number of pairs; and as means over
      the pairs "pair/chosen" and "pair/rejected" (log-probabilities of whole answers,
      in nats), "pair/margin" (m) and "pair/ranked" (the share with m > 0).

    Raises:
      ValueError: shapes differ or are not those of pairs, or beta is not above 0.

    Source: 2305.18290, eq. 7.
    """
    if beta <= 0:
        raise ValueError(f"beta={beta} would prefer nothing, or the rejected answers.")
    _check_pairs(mask_P2T)
    logprobs_P2 = answer_sums(logprobs_P2T, mask_P2T)
    reference_P2 = answer_sums(reference_logprobs_P2T, mask_P2T)
    reward_P2 = beta * (logprobs_P2 - jax.lax.stop_gradient(reference_P2))
    margin_P = reward_P2[:, 0] - reward_P2[:, 1]
    loss, weight = _mean_over_pairs(-jax.nn.log_sigmoid(margin_P), mask_P2T)
    return loss, _metrics(logprobs_P2, margin_P, mask_P2T) | {"weight": weight}


def orpo_loss(logprobs_P2T, mask_P2T, *, strength=0.1):
    """Odds-Ratio Preference Optimisation: imitate the chosen one, and prefer it.

        L = mean over pairs of [-log p(chosen) - λ log σ(m)],
        m = log odds(chosen) - log odds(rejected),  odds(y) = p(y) / (1 - p(y))

    Here log p of an answer is the *mean* over its tokens, so that 1 - p means
    something for long answers, too. There is no reference model.

    Args:
      logprobs_P2T: log-probabilities of the answers' tokens, in nats.
      mask_P2T: 1 for tokens of the answers, their end-of-turn included, else 0.
      strength: λ, the weight of preferring beside imitating.

    Returns:
      The scalar loss, and the metrics of `dpo_loss`; the margin is m, the
      log-probabilities are those of whole answers.

    Raises:
      ValueError: the shape is not that of pairs, or strength is below 0.

    Source: 2403.07691, eqs. 4 to 7.
    """
    if strength < 0:
        raise ValueError(f"strength={strength} would prefer the rejected answers.")
    _check_pairs(mask_P2T)
    logprobs_P2 = answer_sums(logprobs_P2T, mask_P2T)
    mean_P2 = jnp.minimum(_per_token(logprobs_P2, mask_P2T), CERTAIN)
    log_odds_P2 = mean_P2 - jnp.log(-jnp.expm1(mean_P2))
    margin_P = log_odds_P2[:, 0] - log_odds_P2[:, 1]
    loss_P = -mean_P2[:, 0] - strength * jax.nn.log_sigmoid(margin_P)
    loss, weight = _mean_over_pairs(loss_P, mask_P2T)
    return loss, _metrics(logprobs_P2, margin_P, mask_P2T) | {"weight": weight}


def reward_model_loss(rewards_P2):
    """Bradley and Terry's: how surprising it is which of two answers was chosen.

        L = mean over pairs of -log σ(r(chosen) - r(rejected))

    Args:
      rewards_P2: what a reward model gives the chosen and the rejected answer.

    Returns:
      The scalar loss, and {"weight": the number of pairs}.

    Source: InstructGPT, 2203.02155, eq. 1, with two answers to a prompt.
    """
    loss_P = -jax.nn.log_sigmoid(rewards_P2[:, 0] - rewards_P2[:, 1])
    return loss_P.mean(), {"weight": jnp.float32(len(loss_P))}


def answer_sums(logprobs_P2T, mask_P2T):
    """The log-probability of each whole answer (P,2): the sum over its tokens."""
    return jnp.sum(chosen(logprobs_P2T, mask_P2T), axis=-1)


def _per_token(logprobs_P2, mask_P2T):
    """An answer's log-probability over its number of tokens; 0 for an empty one."""
    return logprobs_P2 / jnp.maximum(jnp.sum(mask_P2T > 0, axis=-1), 1)


def _check_pairs(mask_P2T):
    """Raises ValueError where the axes are not pairs, 2 answers, tokens."""
    if len(mask_P2T.shape) != 3 or mask_P2T.shape[1] != 2:
        raise ValueError(
            f"a mask of shape {mask_P2T.shape}: a preference needs (pairs, 2, tokens), "
            "the chosen answer first, the rejected one second."
        )


def _mean_over_pairs(values_P, mask_P2T):
    """The mean over the pairs whose answers both have tokens, and their number."""
    return mean_over_tokens(values_P, jnp.all(jnp.any(mask_P2T > 0, -1), -1))


def _metrics(logprobs_P2, margin_P, mask_P2T):
    """What is shown of a batch of pairs, without gradients."""
    values = {
        "chosen": logprobs_P2[:, 0],
        "rejected": logprobs_P2[:, 1],
        "margin": margin_P,
        "ranked": margin_P > 0,
    }
    return {
        f"pair/{name}": jax.lax.stop_gradient(_mean_over_pairs(x, mask_P2T)[0])
        for name, x in values.items()
    }
