"""Updating a model: one trainer, its objectives and optimizers."""

from helpers.training import (
    objectives,  # what is minimised: SFT, GRPO, DPO, distillation
    optimizers,  # AdamW, Muon, schedules
)
from helpers.training.checkpoints import CheckpointError  # a checkpoint cannot be used
from helpers.training.logging import (
    Callback,  # is told of every step
    Logger,  # where rows of metrics go
)
from helpers.training.state import (
    NothingToLearn,  # batch after batch taught nothing
    TrainingDiverged,  # a loss is no number
)
from helpers.training.trainer import Trainer  # updates a model, batch by batch
