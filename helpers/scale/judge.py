"""Rewards and tools in a process of their own, away from the models that answer.

For a reward that needs minutes, memory or a machine of its own (a sandbox, a model that
grades), and for tools that must not run beside a model. What is quick, such as all
rewards of this course, scores sooner where the answers are sampled.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable

from helpers.rewards.functions import RewardSet
from helpers.runtime.run_identity import describe, differences, listed
from helpers.tools.tool import Tool, by_name


class Judge:
    """Scores answers and runs tools, for `Rollouts` that are somewhere else.

    Args:
      reward: that of the rollouts; None scores nothing.
      tools: theirs, list of `Tool`.
    """

    def __init__(self, reward: RewardSet | None, tools: Iterable[Tool] = ()):
        self.reward, self.tools = reward, by_name(tools)

    def describe(self) -> dict:
        """What a worker holds against its own rewards and tools."""
        rewards = self.reward.rewards if self.reward else ()
        told = {
            f"reward {name!r}": describe(function) | {"its weight": float(weight)}
            for name, function, weight in rewards
        }
        return told | {f"tool {n!r}": describe(tool) for n, tool in self.tools.items()}

    def score(self, prompts, completions, columns) -> tuple:
        """As `RewardSet` does; columns is a dict."""
        assert self.reward is not None, "whoever has no reward asks for no score"
        return self.reward(prompts, completions, **columns)

    def run(self, name: str, arguments: dict) -> dict:
        """What a tool gives for arguments that fit its schema."""
        return self.tools[name].run(**arguments)


def judged_elsewhere(rollouts, ask: Callable) -> None:
    """Has a judge score and run what `Rollouts` would themselves.

    Args:
      rollouts: Rollouts, which are changed. Their noise and state stay as they are.
      ask: ask(method, *arguments) -> what that method of the judge gives or raises.
    Raises:
      ValueError: the judge has other rewards or tools.
    """
    dialogue = rollouts.dialogue
    own = Judge(rollouts.reward, getattr(dialogue, "tools", ()))
    if changed := differences(ask("describe"), own.describe()):
        raise ValueError(
            f"The judge is that of another run: {listed(changed)}. Make it with the "
            "rewards and tools of the rollouts."
        )
    rollouts.get_state()  # describes them, once and for all, as they were made
    if rollouts.reward:
        rollouts.reward = _Asked(rollouts.reward, ask)
    if own.tools:
        dialogue.tools = [
            dataclasses.replace(tool, run=functools.partial(_run, ask, name))
            for name, tool in own.tools.items()
        ]


def _run(ask, name, /, **arguments):
    return ask("run", name, arguments)


class _Asked(RewardSet):
    """A RewardSet that is asked for its scores elsewhere."""

    def __init__(self, own: RewardSet, ask: Callable):
        self.rewards, self.ask = own.rewards, ask

    def __call__(self, prompts, completions, **columns):
        """As `RewardSet` does."""
        return self.ask("score", prompts, completions, columns)
