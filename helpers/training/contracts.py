"""What the trainer asks of an objective and of a callback."""

from typing import Any, Protocol

import jax
from flax import nnx


class Objective(Protocol):
    """What is minimised: a function of the model and a batch.

    It returns a scalar loss, which is a mean, and scalar metrics, of which "weight" is
    the number that the mean was divided by: tokens or sequences. After the batch come
    the modules that the trainer keeps `frozen`, such as a teacher.
    """

    def __call__(
        self, model: nnx.Module, batch: dict, /, *frozen: Any, **settings: Any
    ) -> tuple[jax.Array, dict]:
        """The loss of a batch, and its metrics."""


class Callback:
    """Called by the trainer, in every process; what is raised ends the training.

    Subclass it and define what is wanted; all else does nothing. With callbacks the
    trainer waits for the numbers of each step before the next one, so that
    `trainer.model` is the model of that step.
    """

    def on_step(self, trainer: Any, row: dict) -> None:
        """After each step; `row` is its row of metrics, evaluation included."""

    def on_save(self, trainer: Any, folder: Any) -> None:
        """After each checkpoint; `folder` is where it lies."""

    def on_end(self, trainer: Any, table: list[dict]) -> None:
        """When `fit` has reached its last step or the batches have ended."""
