"""Tickets: which prompts a worker is to answer, with which noise."""

import zlib

import numpy as np

from helpers.generation.rollouts import Rollouts

ASKED = ("prompt", "prompt_mask", "images")


def draw(rollouts: Rollouts) -> dict | None:
    """The next ticket, for `Worker.answer`; None where the prompts end.

    Returns:
      A state of the rollouts, for JSON, and of the prompts that they draw from there
      `count` (the last batch may be smaller) and their `checksum`.
    """
    ticket = rollouts.get_state()
    if (drawn := next(rollouts.prompts, None)) is None:
        return None
    rollouts.step += 1
    return ticket | {"count": len(drawn["prompt"]), "checksum": checksum(drawn)}


def checksum(batch: dict[str, np.ndarray]) -> int:
    """CRC-32 of a batch's prompts and pictures, and of their shapes and dtypes."""
    found = 0
    for name in ASKED:
        if name in batch:
            x = np.ascontiguousarray(batch[name])
            found = zlib.crc32(f"{name} {x.shape} {x.dtype}".encode(), found)
            found = zlib.crc32(x.tobytes(), found)
    return found
