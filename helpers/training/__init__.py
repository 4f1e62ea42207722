"""Updating a model: one trainer, its objectives and optimizers."""

from helpers.training import objectives, optimizers
from helpers.training.checkpoints import CheckpointError
from helpers.training.logging import Callback, Logger
from helpers.training.state import NothingToLearn, TrainingDiverged
from helpers.training.trainer import Trainer

__all__ = [
    "Callback",  # is told of every step
    "CheckpointError",  # a run cannot be saved or resumed
    "Logger",  # where rows of metrics go
    "NothingToLearn",  # batch after batch taught nothing
    "Trainer",  # updates a model, batch by batch
    "TrainingDiverged",  # a loss is no number
    "objectives",  # what is minimised: SFT, GRPO, DPO, distillation
    "optimizers",  # AdamW, Muon, schedules
]
