"""Environments: what a model's turn does, what it sees next, and what it earned.

    class HigherOrLower:
        def reset(self, row, seed):
            self.secret = row["secret"]
            return [{"role": "user", "content": "Guess a number from 1 to 31."}]

        def step(self, completion):
            guess = int(completion) if completion.strip().isdecimal() else 0
            if guess == self.secret:
                return Step(done=True, reward=1.0)
            word = "higher" if guess < self.secret else "lower"
            return Step([{"role": "user", "content": word}])

    game = EnvironmentUse(HigherOrLower, turns=5, max_reply_tokens=16)
    prompts = batches.prompts(
        rows, tokenizer, environment=game, batch=16, buckets=(32,), seed=0
    )
    source = Rollouts(
        model, prompts, environment_reward, tokenizer,
        environment=game, group=8, max_tokens=8,
    )

Each answer has an environment of its own. `rewards.environment_reward` is the sum of
its steps' rewards; other reward functions may be added to it, or take its place. They
get the `tool.Trace` of each answer, and `environments` if they name it. Tools are one
kind of environment (`generation.ToolUse`). `handover.environments` takes those of TRL
and verifiers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Messages = Sequence[dict[str, Any]]


class Step(NamedTuple):
    """What a turn of the model led to.

    messages: replies that the model reads before its next turn, of the roles "user" or
      "tool", with a text as "content"; after the last turn nobody reads them.
    done: whether the conversation is over.
    reward: is added to what the answer has earned.
    """

    messages: Messages = ()
    done: bool = False
    reward: float = 0.0


class Environment(Protocol):
    """The rules of one conversation; whatever it raises ends that conversation only."""

    def reset(self, row: dict[str, Any], seed: int) -> Messages | None:
        """Begins a conversation.

        Args:
          row: a copy of one of the prompts' rows.
          seed: the same for all answers of a group, which begin alike.
        Returns:
          The opening turns; None: the row's "question".
        """

    def step(self, completion: str) -> Step:
        """Takes a turn.

        Args:
          completion: what the model wrote in this turn, its thought included
            (`rewards.answers.without_thoughts`), without the token that ends it. A turn
            that was cut off by `max_tokens` never comes here.
        """


class EnvironmentFailed(RuntimeError):
    """More environments of a batch failed than may; the first error is its cause."""
