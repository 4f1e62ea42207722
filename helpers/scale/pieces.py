"""What a worker sends back: a small batch of groups, looked at before it is used."""

import json
import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from helpers.generation.rollouts import Rollouts
from helpers.losses.policy_gradient import advantages
from helpers.scale import tickets

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


def require_whole(piece: Piece, ticket: dict, rollouts: Rollouts, version: int) -> None:
    """Refuses what is not the whole groups that were asked for, of numbers in range.

    Args:
      piece: from a worker.
      ticket: from `tickets.draw`, what the worker was asked.
      rollouts: which the ticket is of.
      version: the newest weights that anyone can have answered with.
    Raises:
      BrokenPiece: says which array, and what is wrong with it.
    """
    batch = getattr(piece, "batch", None)
    if not isinstance(piece, Piece) or not isinstance(batch, dict) or not batch:
        raise BrokenPiece(f"no batch of answers, but a {type(piece).__name__}")
    if missing := {*PER_TOKEN, *PER_PROMPT_TOKEN, *PER_ANSWER} - {*batch}:
        raise BrokenPiece(f"{', '.join(sorted(missing))} is missing")
    _require_shapes(batch, rollouts.group, ticket["count"])
    if tickets.checksum(batch) != ticket["checksum"]:
        raise BrokenPiece("its prompts are not those that were asked")
    answers, vocab = batch["completion"], rollouts.model.config.vocab_size
    if answers.min() < 0 or answers.max() >= vocab:
        raise BrokenPiece("completion has tokens that the vocabulary has not")
    if not np.isin(batch["loss_mask"], (0, 1)).all():
        raise BrokenPiece("loss_mask has other numbers than 0 and 1")
    if (batch["logprobs"] > 1e-4).any():
        raise BrokenPiece("logprobs are above 0, which no probability is")
    if type(piece.version) is not int or not 0 <= piece.version <= version:
        raise BrokenPiece(f"its weights are of version {piece.version!r}, not of ours")
    ours = np.asarray(advantages(batch["rewards"], rollouts.advantage))
    if not np.allclose(batch["advantages"], ours, rtol=1e-5, atol=1e-6):
        raise BrokenPiece("its advantages are not those of its rewards")
    _require_described(piece)


def _require_shapes(batch, group, prompts):
    """Every array has its axes and kind of numbers, all of them finite."""
    dimensions = dict.fromkeys(PER_TOKEN, 3) | dict.fromkeys(
        (*PER_PROMPT_TOKEN, *PER_ANSWER), 2
    )
    for name, count in dimensions.items():
        if not isinstance(batch[name], np.ndarray) or batch[name].ndim != count:
            raise BrokenPiece(f"{name} is no array with {count} axes")
    if not isinstance(batch.get("images", batch["prompt"]), np.ndarray):
        raise BrokenPiece("images is no array")
    if unknown := {*batch} - {*dimensions, "images"}:
        raise BrokenPiece(f"{sorted(map(str, unknown))} is nothing that was asked for")
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
    """What the log will say of it can be averaged, shown and written down."""
    if not isinstance(piece.metrics, dict) or "reward" not in piece.metrics:
        raise BrokenPiece("its metrics are no dict with a reward")
    for x in (*piece.metrics.values(), piece.seconds):
        if not isinstance(x, Real) or not math.isfinite(x):
            raise BrokenPiece(f"its metrics or seconds hold {x!r}, not a number")
    try:
        shown = json.loads(json.dumps([piece.samples, [*piece.metrics]]))
        whole = [piece.samples, [*piece.metrics]] == shown
    except (TypeError, ValueError, RecursionError):
        whole = False
    samples = piece.samples if whole else None
    if not isinstance(samples, list) or not all(isinstance(x, dict) for x in samples):
        raise BrokenPiece("its samples, or names of metrics, are nothing for a log")


def joined(pieces: list[Piece]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """One batch of several pieces, padded to the widest, and their mean metrics.

    A metric is the mean over those pieces that have it.
    """
    metrics = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece.metrics):
        having = [piece for piece in pieces if name in piece.metrics]
        weights = [len(piece.batch["prompt"]) for piece in having]
        values = [piece.metrics[name] for piece in having]
        metrics[name] = float(np.average(values, weights=weights))
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
