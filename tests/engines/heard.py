"""Reward functions that note what they are asked, and what they say."""

import functools

from helpers.rewards import correct, format_reward, functions, length_penalty


def noted(notes):
    """The rewards of `handover.rewards`; `notes` is filled by name.

    Args:
      notes: dict; gets {"completions": texts, "answer": …, "scores": …} by name.
    """

    def listening(function):
        kept = notes.setdefault(
            function.__name__, {"completions": [], "answer": [], "scores": []}
        )

        @functools.wraps(function)
        def heard(prompts, completions, answer, **columns):
            scores = function(prompts, completions, answer=answer, **columns)
            kept["completions"] += [functions.completion_text(c) for c in completions]
            kept["answer"] += [str(x) for x in answer]
            kept["scores"] += scores
            return scores

        return heard

    rewards = correct, format_reward, length_penalty(200, soft=200)
    return [listening(function) for function in rewards]
