"""What the package has fits the types that it asks for: `make lint` reads this file.

Nothing runs it.
"""

from helpers.app.chat import Backend
from helpers.app.models import LocalModel
from helpers.app.server import OpenAIServer
from helpers.batches import BatchSource, Source
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.environment_use import EnvironmentUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import Dialogue
from helpers.generation.tool_use import ToolUse
from helpers.handover.environments import VerifiersEnvironment
from helpers.model.transformer import Transformer
from helpers.plots.live import Live
from helpers.rewards import RewardSet, functions
from helpers.rewards.food_rewards import WEIGHTS
from helpers.rewards.functions import Reward
from helpers.scale import FromWorkers
from helpers.tools import Environment, Tool, nutrition
from helpers.training import Trainer, objectives, optimizers
from helpers.training.logging import Callback, Logger, TensorBoard
from helpers.training.update import Objective

MADE: list[Objective] = [
    objectives.sft(),
    objectives.policy_gradient(),
    objectives.gspo(),
    objectives.dpo(),
    objectives.orpo(),
    objectives.distillation(),
]
REWARDS: list[Reward] = [
    functions.correct,
    functions.correct,
    functions.format_reward,
    functions.annotations_hold,
    functions.length_penalty(200),
    *WEIGHTS,
]
TOOLS: list[Tool] = [nutrition.TOOL]
ENVIRONMENTS: list[Environment] = [VerifiersEnvironment(None, 2)]


def batch_sources(
    source: Source, rollouts: Rollouts, elsewhere: FromWorkers
) -> list[BatchSource]:
    return [source, rollouts, elsewhere]


def dialogues(tools: ToolUse) -> list[Dialogue]:
    game = EnvironmentUse(lambda: ENVIRONMENTS[0], turns=2)
    return [Dialogue(), tools, game, CalculatorUse(calls=9)]


def loggers(board: TensorBoard, live: Live) -> list[Logger]:
    return [board, live]


def backends(local: LocalModel, server: OpenAIServer) -> list[Backend]:
    return [local, server]


class Counting(Callback):
    """Defines what it wants to be told of, and no more."""

    def on_step(self, trainer, row):
        """A step."""


def own_objective(model, batch, teacher=None, temperature=1.0):
    """An objective as a learner writes it."""
    return model(batch).sum(), {"weight": 1.0}


def own_reward(prompts, completions, answer, **columns):
    """A reward as a learner writes it."""
    return [0.0 for _ in completions]


def learner(model: Transformer, source: Source):
    RewardSet({own_reward: 1.0, functions.correct: 0.5})
    RewardSet([(own_reward, 1.0)])
    RewardSet(own_reward)
    optimizer = optimizers.adamw(1e-3)
    trainer = Trainer(model, own_objective, optimizer, callbacks=[Counting()])
    trainer.fit(source, 3)
