"""This course's rewards and rows as MaxText's RL calls them.

Both of its settings `reward_functions_path` and `dataset_processor_path` are this file.
MaxText passes its settings besides, and gold answers as JSON lists, because some of its
data sets have several: an answer is right if it is one of them. It adds up rewards
without weights, reads rows from parquet files, and an answer is one turn: no tool runs.
"""

import functools
import json

from helpers import rewards
from helpers.handover.conversations import on_conversations
from helpers.rewards import food_rewards, gold_number
from helpers.text.encoding import controls_of
from helpers.tools import GEMMA3, GEMMA4, HERMES, nutrition

GRAMMARS = {"gemma3": GEMMA3, "gemma4": GEMMA4, "qwen": HERMES}
PICTURES = ("image", "images", "picture", "pictures")
_controls = functools.lru_cache(maxsize=1)(controls_of)  # it reads a whole vocabulary


def correct(prompts, completions, tmvp_config=None, *, answer, **_):
    """1.0 where the number after the last `####` is one of the gold answers'.

    Args:
      prompts, completions: as for `rewards.correct`.
      tmvp_config: MaxText's settings, not used.
      answer: for each completion a JSON list of gold answers, a list, or one answer.
    """
    scores = []
    for completion, given in zip(completions, answer, strict=True):
        if isinstance(given, str) and given.lstrip().startswith("["):
            given = json.loads(given)
        golds = [*map(str, given)] if isinstance(given, list) else [str(given)]
        if not golds:
            raise ValueError("An empty list of gold answers: nothing could be right.")
        same = [completion] * len(golds)
        scores.append(max(rewards.correct(same, same, golds)))
    return scores


def format_reward(prompts, completions, tmvp_config=None, **columns):
    """`rewards.format_reward`."""
    return rewards.format_reward(prompts, completions, **columns)


def length_penalty(prompts, completions, tmvp_config=None, **columns):
    """`rewards.length_penalty` beyond 2,000 characters, from 1,600 on."""
    return rewards.length_penalty(2000, soft=400)(prompts, completions, **columns)


def food(prompts, completions, tmvp_config=None, *, portions, **_):
    """The weighted sum of all food rewards, of a turn that may look foods up.

    Args:
      prompts, completions: as for `rewards.food_rewards`; a completion is a text.
      tmvp_config: MaxText's settings; `model_name` determines how calls are written.
      portions: for each completion JSON, as `process_data` writes it.
    """
    model = str(getattr(tmvp_config, "model_name", None))
    family = next((name for name in GRAMMARS if model.startswith(name)), None)
    if family is None:
        raise ValueError(f"{model} writes calls in another way than {[*GRAMMARS]}.")
    weighted = {
        on_conversations(reward, GRAMMARS[family], [nutrition.TOOL]): weight
        for reward, weight in food_rewards.WEIGHTS.items()
    }
    return rewards.RewardSet(weighted)(prompts, completions, portions=portions)[0]


def process_data(dataset_name, model_tokenizer, template_config, tmvp_config, x):
    """A row for MaxText: the prompt as the model's own template writes it, and columns.

    Columns are JSON, because batching would take lists apart.

    Args:
      dataset_name, template_config, tmvp_config: MaxText's, not used.
      model_tokenizer: of transformers, with a chat template.
      x: a row with a "question"; and an "answer", or "portions" as rows of food have.
    Returns:
      {"prompts", "question", "answer"}, and "portions" where the row has them.
    Raises:
      ValueError: the row has a picture, or nothing to be scored by; or its question
        spells out a control token, which MaxText would read as one.
    """
    question, answer, portions = x["question"], x.get("answer"), x.get("portions")
    if any(x.get(name) is not None for name in PICTURES):
        raise ValueError(
            "The row has a picture, and MaxText's RL reads text only. Leave the column "
            "out, and say in the question what is on the picture."
        )
    if answer is None and portions is None:
        raise ValueError(f"No answer and no portions: {sorted(x)} cannot be scored.")
    if spelled := _controls(model_tokenizer).every.search(question):
        raise ValueError(
            f"The question spells out {spelled[0]!r}, which MaxText reads as a control "
            f"token, not as text: {question[:60]!r}. Write it in another way, or leave "
            "the row out."
        )
    prompt = model_tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        tokenize=False,
        add_generation_prompt=True,
    )
    golds = [] if answer is None else [str(gold_number(answer))]
    row = {"prompts": prompt, "question": question, "answer": json.dumps(golds)}
    return row if portions is None else row | {"portions": json.dumps(portions)}
