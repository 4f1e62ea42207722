"""Promises that are broken; test_contracts.py has mypy find each, and no other line."""

from helpers.batches import BatchSource
from helpers.generation.dialogue import Dialogue
from helpers.model.transformer import Transformer
from helpers.rewards import RewardSet
from helpers.tools import Tool, nutrition
from helpers.training import Trainer, objectives, optimizers
from helpers.training.logging import Logger
from helpers.training.update import Objective


class Forgetful:
    """A batch source that cannot say where it stands."""

    metrics: dict[str, float] = {}
    samples: list[dict] = []

    def __next__(self) -> dict:
        return {}


class Mute:
    """A logger that is never started."""

    def write(self, row: dict, samples: list[dict]) -> None:
        """Nothing."""


class Endless:
    """A dialogue that does not know its width."""

    schemas = None

    def describe(self) -> dict:
        return {}


def blind(model) -> tuple[float, dict]:
    """An objective that is shown no batch."""
    return 0.0, {}


def lossless(model, batch) -> dict:
    """An objective that returns no loss."""
    return {}


def one_number(prompts, completions, **columns) -> float:
    """A reward for all completions together."""
    return 1.0


def broken(model: Transformer, source: BatchSource):
    objective = objectives.sft()
    optimizer = optimizers.adamw(1e-3)
    Trainer(model, blind, optimizer)  # wrong
    Trainer(model, lossless, optimizer)  # wrong
    Trainer(model, objective, optimizer, minibatches=0.5)  # wrong
    Trainer(model, objective, optimizer, loggers=[Mute()])  # wrong
    trainer = Trainer(model, objective, optimizer)
    trainer.fit(Forgetful(), 3)  # wrong
    trainer.fit(source, 3)
    RewardSet(one_number)  # wrong
    RewardSet({"correct": 1.0})  # wrong
    Tool(nutrition.lookup_nutrition, nutrition.SCHEMA)  # wrong
    dialogue: Dialogue = Endless()  # wrong
    logger: Logger = Mute()  # wrong
    made: Objective = objectives  # wrong
    return dialogue, logger, made
