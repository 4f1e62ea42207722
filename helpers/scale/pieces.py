"""What a worker sends back: a small batch of groups, looked at before it is used."""

from typing import NamedTuple

import numpy as np

PER_TOKEN = ("completion", "loss_mask", "logprobs")
PER_PROMPT_TOKEN = ("prompt", "prompt_mask")
PER_ANSWER = ("rewards", "advantages")


class BrokenPiece(ValueError):
    """A worker sent something that no update may learn from."""


class Piece(NamedTuple):
    """A batch of `Rollouts`, and what came with it.

    batch: arrays by name, see `generation.Rollouts`. metrics, samples: of the Rollouts.
    version: of the weights that answered. seconds: that it took, on the clock.
    """

    batch: dict[str, np.ndarray]
    metrics: dict[str, float]
    samples: list[dict]
    version: int
    seconds: float


def require_whole(piece: Piece, group: int, vocab: int) -> None:
    """Refuses what is not P whole groups of finite numbers.

    Args:
      piece: from a worker.
      group: G, answers to a prompt.
      vocab: token ids are below it.
    Raises:
      BrokenPiece: says which array, and what is wrong with it.
    """
    batch = getattr(piece, "batch", None)
    if not isinstance(batch, dict) or "completion" not in batch:
        raise BrokenPiece(f"no batch of answers, but a {type(piece).__name__}")
    if missing := {*PER_TOKEN, *PER_PROMPT_TOKEN, *PER_ANSWER} - {*batch}:
        raise BrokenPiece(f"{', '.join(sorted(missing))} is missing")
    dimensions = dict.fromkeys(PER_TOKEN, 3) | dict.fromkeys(
        (*PER_PROMPT_TOKEN, *PER_ANSWER), 2
    )
    for name, count in dimensions.items():
        if not isinstance(batch[name], np.ndarray) or batch[name].ndim != count:
            raise BrokenPiece(f"{name} is no array with {count} axes")
    answers, prompts = batch["completion"].shape, batch["prompt"].shape
    shapes: dict[str, tuple] = dict.fromkeys(PER_TOKEN, (prompts[0], group, answers[2]))
    shapes |= dict.fromkeys(PER_PROMPT_TOKEN, prompts)
    shapes |= dict.fromkeys(PER_ANSWER, (prompts[0], group))
    for name, shape in shapes.items():
        if batch[name].shape != shape:
            raise BrokenPiece(f"{name} has the shape {batch[name].shape}, not {shape}")
        if not np.isfinite(batch[name]).all():
            raise BrokenPiece(f"{name} has numbers that are not finite")
    for name in ("prompt", "completion"):
        if batch[name].min() < 0 or batch[name].max() >= vocab:
            raise BrokenPiece(f"{name} has tokens that the vocabulary has not")
    if (batch["logprobs"] > 1e-4).any():
        raise BrokenPiece("logprobs are above 0, which no probability is")


def joined(pieces: list[Piece]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """One batch of several pieces, padded to the widest, and their mean metrics."""
    weights = [len(piece.batch["prompt"]) for piece in pieces]
    metrics = {
        name: float(np.average([p.metrics[name] for p in pieces], weights=weights))
        for name in pieces[0].metrics
    }
    if len(pieces) == 1:
        return pieces[0].batch, metrics
    batch = {}
    for name in pieces[0].batch:
        arrays = [piece.batch[name] for piece in pieces]
        width = max(x.shape[-1] for x in arrays)
        if name in (*PER_TOKEN, *PER_PROMPT_TOKEN):
            arrays = [_widened(x, width) for x in arrays]
        batch[name] = np.concatenate(arrays)
    return batch, metrics


def _widened(x, width):
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])])
