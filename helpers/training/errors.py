"""Why training stops by itself: numbers that are no numbers, and nothing to learn."""

import math


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a finite number."""


class NothingToLearn(RuntimeError):
    """Many batches in a row had nothing that an update could learn from."""


def require_finite(row: dict, checkpoint: str) -> None:
    """Refuses the metrics of a step whose update was left out.

    Args:
      row: with "step", "loss" and "grad_norm".
      checkpoint: the last good one, in words.
    Raises:
      TrainingDiverged: loss or gradient are not finite.
    """
    for name in ("loss", "grad_norm"):
        if not math.isfinite(row[name]):
            raise TrainingDiverged(
                f"Step {row['step']}: {name} is {row[name]}, so its update was"
                " left out. Lower the learning rate, or look at what this batch"
                f" holds. Last good checkpoint: {checkpoint}."
            )


def require_something_to_learn(table: list[dict], patience: int) -> None:
    """Refuses a table whose last `patience` steps counted no token at all.

    Args:
      table: rows with "step", "weight" and "tokens".
    Raises:
      NothingToLearn: what the batches had in common, and what to do.
    """
    last = table[-patience:]
    if len(last) == patience and not any(x["weight"] and x["tokens"] for x in last):
        raise NothingToLearn(
            f"In {patience} batches in a row, up to step {last[-1]['step']}, no token"
            " counted for the loss (weight 0): their loss masks are empty, and every"
            " update was zero. Answers that all ran out of max_tokens are masked by"
            " Rollouts unless it is given mask_truncated=False, which is right for"
            " distillation; for RL give them a larger max_tokens. For SFT look whether"
            " rows are so long that their answers are cut off."
        )
