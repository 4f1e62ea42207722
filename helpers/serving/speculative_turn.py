"""Rollouts whose answers a drafter helps to write."""

from helpers.generation.dialogue import Answers
from helpers.generation.one_turn import told
from helpers.runtime.run_identity import describe
from helpers.serving import speculative
from helpers.text import chat


class SpeculativeTurn:
    """A `dialogue.Dialogue` of one turn: `Rollouts(…, tools=SpeculativeTurn(drafter))`.

    The answers are distributed as without a drafter, and their log-probabilities are
    the policy's own, so nothing that learns from them has to know. Noise is used up in
    another order: a seed gives other answers than without.

    Args:
      drafter: from `serving.drafters`. It is not trained, so it falls behind a policy
        that moves far from it; that costs time only.
    """

    schemas = None

    def __init__(self, drafter):
        self.drafter = drafter

    def width(self, max_tokens):
        """Most tokens of an answer."""
        return max_tokens

    def describe(self):
        """What a run's state says of it: the drafter, its weights included."""
        return {f"drafter: {name}": x for name, x in describe(self.drafter).items()}

    def answers(
        self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0
    ) -> Answers:
        """Samples an answer for each key; see `tool_use.ToolUse.answers`.

        `metrics` has `tokens_per_pass`, of the whole batch.

        Raises:
          ValueError: the prompts have pictures.
        """
        if "images" in prompts:
            raise ValueError(
                "A drafter sees no pictures: leave it out for prompts that have them."
            )
        found = speculative.generate(
            model,
            self.drafter,
            prompts["prompt"],
            prompts["prompt_mask"],
            keys,
            max_tokens=max_tokens,
            eos_ids=chat.eos_ids(tokenizer),
            temperature=temperature,
        )
        speed = {"tokens_per_pass": found.per_pass()}
        return told(tokenizer, found.completions, speed)
