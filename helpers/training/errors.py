"""Why training stops: numbers that are not finite, or nothing to learn from."""

import math

import jax
import jax.numpy as jnp

from helpers.training.update import OffPolicyObjective


class TrainingDiverged(RuntimeError):
    """Loss, gradient, learning rate or weights stopped being finite numbers."""


class NothingToLearn(RuntimeError):
    """Many batches in a row had nothing that an update could learn from."""


def require_same_policy(model, objective, batches) -> None:
    """Checks that answers are sampled from the policy that the objective assumes.

    Args:
      model: that is trained.
      objective: an `OffPolicyObjective` takes the model itself for the old policy.
      batches: a batch source, whose `model` samples and whose answers may be `limit`
        updates old.
    Raises:
      ValueError: another model samples; or answers may be old, and the objective counts
        them as the policy's.
    """
    if not isinstance(objective, OffPolicyObjective):
        return
    if batches.model is not None and batches.model is not model:
        raise ValueError(
            "The rollouts are sampled from another model than the one that is trained:"
            " pass the same to both (lora.add makes a new one)."
        )
    if batches.limit and not objective.weighs:
        raise ValueError(
            f"Answers may be {batches.limit} updates old: pass sampler_cap=2.0 to the"
            " objective, or limit=0 to FromWorkers."
        )


def require_finite(row: dict, checkpoint: str) -> None:
    """Checks the metrics of a step, whose update is left out if they are not finite.

    Args:
      row: with "step", and of "learning_rate", "loss" and "grad_norm" what is known.
      checkpoint: the last good one, in words.
    Raises:
      TrainingDiverged: rate, loss or gradient are not finite.
    """
    for name in ("learning_rate", "loss", "grad_norm"):
        if not math.isfinite(row.get(name, 0.0)):
            raise TrainingDiverged(
                f"Step {row['step']}: {name} is {row[name]}. Lower the learning rate,"
                f" or look at this batch. Last good checkpoint: {checkpoint}."
            )


def require_finite_weights(params, step: int, checkpoint: str) -> None:
    """Checks that no update has made weights infinite or NaN.

    Args:
      params: a tree of arrays.
      step: how many are done.
      checkpoint: the last good one, in words.
    Raises:
      TrainingDiverged: some are not finite.
    """
    for path, x in jax.tree_util.tree_flatten_with_path(params)[0]:
        if not _all_finite(x):
            raise TrainingDiverged(
                f"After step {step} {jax.tree_util.keystr(path)} is not finite. Lower"
                f" the learning rate. Last good checkpoint: {checkpoint}."
            )


@jax.jit  # once for each shape, whatever the tree
def _all_finite(x):
    return jnp.isfinite(x).all()


NOTHING_LEARNED = (
    "No token counted for the loss: the loss masks of these batches are empty. Answers"
    " that ran out of max_tokens are masked unless Rollouts has mask_truncated=False;"
    " give them a larger max_tokens. For SFT, see whether rows are so long that their"
    " answers are truncated."
)


def nothing_learned(rows: list[dict]) -> bool:
    """Whether there are rows of the table, and none of them counts a token."""
    return bool(rows) and not any(row["weight"] and row["tokens"] for row in rows)
