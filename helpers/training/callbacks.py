"""What the trainer tells others while it trains."""

from typing import Protocol


class Callback(Protocol):
    """Called by the trainer, in every process; what is raised ends the training.

    Subclass it and define what is wanted; all else does nothing. With callbacks the
    trainer waits for the numbers of each step before the next one, so that
    `trainer.model` is the model of that step.
    """

    def on_step(self, trainer, row: dict) -> None:
        """After each step; `row` is its row of metrics, evaluation included."""

    def on_save(self, trainer, folder) -> None:
        """After each checkpoint; `folder` is where it lies."""

    def on_end(self, trainer, table: list[dict]) -> None:
        """When `fit` has reached its last step or the batches have ended."""
