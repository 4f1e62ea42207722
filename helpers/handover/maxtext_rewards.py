"""This course's rewards as MaxText calls them: `reward_functions_path` is this file.

MaxText passes its settings besides, and gold answers as JSON lists, because some of its
data sets have several: an answer is right if it is one of them. It adds up what reward
functions say, without weights, and an answer is one turn: no tool runs.
"""

import json

from helpers import rewards
from helpers.handover.conversations import on_conversations
from helpers.rewards import food_rewards
from helpers.tools import GEMMA3, GEMMA4, HERMES, nutrition

GRAMMARS = {"gemma3": GEMMA3, "gemma4": GEMMA4, "qwen": HERMES}


def correct(prompts, completions, tmvp_config=None, *, answer, **_):
    """1.0 where the number after the last `####` is one of the gold answers'.

    Args:
      prompts, completions: as for `rewards.correct`.
      tmvp_config: MaxText's settings, not looked at.
      answer: for each completion a JSON list of gold answers, or one as it is.
    """
    scores = []
    for completion, told in zip(completions, answer, strict=True):
        golds = _golds(told)
        found = rewards.correct([""] * len(golds), [completion] * len(golds), golds)
        scores.append(max(found))
    return scores


def format_reward(prompts, completions, tmvp_config=None, **columns):
    """`rewards.format_reward`, as it is."""
    return rewards.format_reward(prompts, completions, **columns)


def length_penalty(prompts, completions, tmvp_config=None, **columns):
    """`rewards.length_penalty` beyond 2,000 characters, from 1,600 on."""
    return rewards.length_penalty(2000, soft=400)(prompts, completions, **columns)


def food(prompts, completions, tmvp_config=None, *, portions, **_):
    """All food rewards with their weights, of a turn that may look foods up.

    Args:
      prompts, completions: as for `rewards.food_rewards`; a completion is a text.
      tmvp_config: MaxText's settings; `model_name` tells how calls are written.
      portions: for each completion JSON, as `maxtext_data` writes it.
    Raises:
      ValueError: a model for which no way to write calls is known here.
    """
    grammar = _grammar(tmvp_config)
    weighed = rewards.RewardSet(
        {
            on_conversations(reward, grammar, [nutrition.TOOL]): weight
            for reward, weight in food_rewards.WEIGHTS.items()
        }
    )
    totals, _means = weighed(prompts, completions, portions=portions)
    return totals


def _grammar(tmvp_config):
    """How the model that MaxText trains writes calls."""
    name = getattr(tmvp_config, "model_name", None)
    for family, grammar in GRAMMARS.items():
        if str(name).startswith(family):
            return grammar
    raise ValueError(f"How {name} writes calls is not known: only {[*GRAMMARS]} are.")


def _golds(told) -> list[str]:
    """The gold answers in MaxText's column."""
    if isinstance(told, str) and told.lstrip().startswith("["):
        told = json.loads(told)
    golds = told if isinstance(told, list) else [told]
    if not golds:
        raise ValueError("An empty list of gold answers: nothing could be right.")
    return [str(gold) for gold in golds]
