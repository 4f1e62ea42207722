"""A rollout worker: it holds a model of its own, and answers what it is asked.

Where it runs, and who asks, is not its business: `ray_crew` makes an actor of it, and a
test calls it as it is.
"""

import sys
import time
from collections.abc import Callable

from helpers.generation.rollouts import Rollouts
from helpers.scale import published
from helpers.scale.pieces import Piece


class Worker:
    """Answers tickets with the newest weights it was given.

    Args:
      make: `make()` gives the same `Rollouts` that the trainer's process has, with a
        model of its own.
    """

    def __init__(self, make: Callable[[], Rollouts]):
        self.rollouts = make()
        self.rollouts.patience = sys.maxsize  # the trainer counts what teaches nothing
        self.version: int | None = None

    def load(self, version: int, arrays: dict) -> None:
        """Takes weights from `published.read`."""
        published.write(self.rollouts.model, arrays)
        self.version = version

    def answer(self, ticket: dict) -> Piece:
        """Samples and scores the groups of a ticket.

        Args:
          ticket: a state of the trainer's `Rollouts`: which prompts, which noise.
        Raises:
          ValueError: the ticket is that of another run.
        """
        if self.version is None:
            raise ValueError("A worker needs weights first: call load().")
        start = time.monotonic()
        self.rollouts.set_state(ticket)
        batch = next(self.rollouts)
        metrics, samples = dict(self.rollouts.metrics), list(self.rollouts.samples)
        seconds = time.monotonic() - start
        return Piece(batch, metrics, samples, self.version, seconds)
