"""Rollouts whose answers a drafter helps to write."""

from helpers.generation.dialogue import OneTurn
from helpers.runtime.run_identity import describe
from helpers.serving import speculative


class SpeculativeTurn(OneTurn):
    """A `dialogue.Dialogue` of one turn: `Rollouts(…, tools=SpeculativeTurn(drafter))`.

    The answers are distributed as without a drafter, and their log-probabilities are
    the policy's own, so nothing that learns from them has to know. Noise is used up in
    another order: a seed gives other answers than without.

    Args:
      drafter: from `serving.drafters`. It is not trained, so it falls behind a policy
        that moves far from it; that costs time only.
    """

    def __init__(self, drafter):
        self.drafter = drafter

    def describe(self):
        """What a run's state says of it: the drafter, its weights included."""
        return {f"drafter: {name}": x for name, x in describe(self.drafter).items()}

    def sampled(self, model, prompts, keys, **settings):
        """As `OneTurn.sampled`; its mean is `tokens_per_pass`, of the whole batch.

        Raises:
          ValueError: the prompts have pictures.
        """
        if "images" in prompts:
            raise ValueError(
                "A drafter sees no pictures: leave it out for prompts that have them."
            )
        rows = prompts["prompt"], prompts["prompt_mask"], keys
        found = speculative.generate(model, self.drafter, *rows, **settings)
        return found.completions, {"tokens_per_pass": found.per_pass()}
