"""Environments of every kind that random models can talk to."""

import random

from family_tokenizers import user
from toy_tools import Chatty

from helpers.generation import EnvironmentUse
from helpers.handover import environments
from helpers.rewards import environment_reward
from helpers.tools.environment import Step

# It drops the thoughts of earlier turns.
SCRIPTED = (
    "{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' }}"
    "{{ m.content.split('</think>')[-1] if loop.index < messages | length "
    "else m.content }}{{ '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>assistant\n' }}{% endif %}"
)


class Echo:
    """Its opening depends on the seed, and its replies on the turn."""

    def reset(self, row, seed):
        return [user(f"{row['question'][:9]}{seed % 1000}")]

    def step(self, completion):
        return Step([user(completion[:1])], reward=len(completion))


class Twice:
    """As TRL has them, with the tool that `Chatty` calls."""

    def reset(self, question, **row):
        self.sum = 0
        return f" {random.randrange(10)}"

    def twice(self, n: int) -> int:
        """
        Doubles a number.

        Args:
            n: The number.
        """
        self.sum += n
        return 2 * n


class Mirror:
    """As verifiers has them; its own rubric."""

    @property
    def rubric(self):
        return self

    async def is_completed(self, state, **kwargs):
        return len(state["trajectory"][-1]["completion"][0]["content"]) % 4 == 0

    async def env_response(self, messages, state):
        return messages[-1]["content"][:1]

    async def score_rollout(self, state):
        state["reward"] = len(str(state["completion"])) / 100


def sums(environments, **_):
    return [each.sum for each in environments]


KINDS = ("keep", "drop", "trl", "verifiers")


def make(kind, turns, reply):
    """(an `EnvironmentUse` of this kind, its reward)."""
    limits = {"turns": turns, "max_reply_tokens": reply}
    if kind == "trl":
        use = environments.TRLUse(Chatty(), Twice, turns=turns, max_result_tokens=reply)
        return use, sums
    if kind == "verifiers":
        use = environments.from_verifiers(Mirror(), **limits)
        return use, environments.rubric_reward
    return EnvironmentUse(Echo, thoughts=kind, **limits), environment_reward
