"""What a worker sends back: a small batch of groups, looked at before it is used."""

import math
from numbers import Real
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


def require_whole(
    piece: Piece, group: int, vocab: int, prompts: int, version: int
) -> None:
    """Refuses what is not the P whole groups that were asked for, of numbers in range.

    Args:
      piece: from a worker.
      group: G, answers to a prompt.
      vocab: token ids are below it.
      prompts: P, as many as its ticket draws.
      version: the newest weights that anyone can have answered with.
    Raises:
      BrokenPiece: says which array, and what is wrong with it.
    """
    batch = getattr(piece, "batch", None)
    if not isinstance(batch, dict) or "completion" not in batch:
        raise BrokenPiece(f"no batch of answers, but a {type(piece).__name__}")
    if missing := {*PER_TOKEN, *PER_PROMPT_TOKEN, *PER_ANSWER} - {*batch}:
        raise BrokenPiece(f"{', '.join(sorted(missing))} is missing")
    _require_shapes(batch, group, prompts)
    for name in ("prompt", "completion"):
        if batch[name].min() < 0 or batch[name].max() >= vocab:
            raise BrokenPiece(f"{name} has tokens that the vocabulary has not")
    for name in ("prompt_mask", "loss_mask"):
        if not np.isin(batch[name], (0, 1)).all():
            raise BrokenPiece(f"{name} has other numbers than 0 and 1")
    if (batch["logprobs"] > 1e-4).any():
        raise BrokenPiece("logprobs are above 0, which no probability is")
    if type(piece.version) is not int or not 0 <= piece.version <= version:
        raise BrokenPiece(f"its weights are of version {piece.version!r}, not of ours")
    _require_described(piece)


def _require_shapes(batch, group, prompts):
    """Every array has its axes and kind of numbers, all of them finite."""
    dimensions = dict.fromkeys(PER_TOKEN, 3) | dict.fromkeys(
        (*PER_PROMPT_TOKEN, *PER_ANSWER), 2
    )
    for name, count in dimensions.items():
        if not isinstance(batch[name], np.ndarray) or batch[name].ndim != count:
            raise BrokenPiece(f"{name} is no array with {count} axes")
    answers, width = batch["completion"].shape, batch["prompt"].shape[1]
    shapes: dict[str, tuple] = dict.fromkeys(PER_TOKEN, (prompts, group, answers[2]))
    shapes |= dict.fromkeys(PER_PROMPT_TOKEN, (prompts, width))
    shapes |= dict.fromkeys(PER_ANSWER, (prompts, group))
    for name, shape in shapes.items():
        kinds = "iu" if name in ("prompt", "completion") else "iufb"
        if batch[name].dtype.kind not in kinds:
            raise BrokenPiece(f"{name} has {batch[name].dtype} for numbers")
        if batch[name].shape != shape or not all(shape):
            raise BrokenPiece(f"{name} has the shape {batch[name].shape}, not {shape}")
        with np.errstate(over="ignore"):  # of what float32 cannot hold
            finite = np.isfinite(batch[name].astype(np.float32)).all()
        if not finite:
            raise BrokenPiece(f"{name} has numbers that are not finite")


def _require_described(piece):
    """What the log will say of it can be averaged, and shown."""
    numbers = piece.metrics.values() if isinstance(piece.metrics, dict) else [None]
    for x in (*numbers, piece.seconds):
        if not isinstance(x, Real) or not math.isfinite(x):
            raise BrokenPiece(f"its metrics or seconds hold {x!r}, not a number")
    if not isinstance(piece.samples, list):
        raise BrokenPiece(f"its samples are a {type(piece.samples).__name__}")


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
