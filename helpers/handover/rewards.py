"""This course's rewards and rows as MaxText's RL calls them.

Both of its settings `reward_functions_path` and `dataset_processor_path` are this file.
MaxText passes its settings besides, and gold answers as JSON lists, because some of its
data sets have several: an answer is right if it is one of them. It adds up rewards
without weights, reads rows from parquet files, and an answer is one turn: no tool runs.
"""

import functools
import json

from helpers import rewards
from helpers.rewards import gold_number
from helpers.text.encoding import controls_of

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
        same = [completion] * len(golds)
        scores.append(max(rewards.correct(same, same, golds)))
    return scores


def format_reward(prompts, completions, tmvp_config=None, **columns):
    """`rewards.format_reward`."""
    return rewards.format_reward(prompts, completions, **columns)


def process_data(dataset_name, model_tokenizer, template_config, tmvp_config, x):
    """A row for MaxText: the prompt as the model's own template writes it, and columns.

    The answer is JSON, because batching would take a list apart.

    Args:
      dataset_name, template_config, tmvp_config: MaxText's, not used.
      model_tokenizer: of transformers, with a chat template.
      x: a row with a "question" and an "answer".
    Returns:
      {"prompts", "question", "answer"}.
    Raises:
      ValueError: the row has a picture, or an answer without a number; or its question
        spells out a control token, which MaxText would read as one.
    """
    question = x["question"]
    if any(x.get(name) is not None for name in PICTURES):
        raise ValueError(
            "The row has a picture, and MaxText's RL reads text only. Leave the column "
            "out, and say in the question what is on the picture."
        )
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
    golds = json.dumps([str(gold_number(x["answer"]))])
    return {"prompts": prompt, "question": question, "answer": golds}
