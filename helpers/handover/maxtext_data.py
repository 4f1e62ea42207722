"""This course's rows as MaxText's RL wants them: `dataset_processor_path` is this file.

MaxText's own processor knows its maths data sets, writes their system prompt, and asks
for `<answer>` tags, which no reward here reads. It reads rows from parquet files.
"""

import functools
import json

from helpers.rewards import gold_number
from helpers.text.encoding import controls_of

TEXT_ONLY = ("image", "images", "picture", "pictures")
SHOWN = 60  # letters of a question in an error
_controls = functools.lru_cache(maxsize=1)(controls_of)  # it reads a whole vocabulary


def process_data(dataset_name, model_tokenizer, template_config, tmvp_config, x):
    """A row for MaxText: the prompt as the model's own template writes it, and columns.

    Columns are JSON, because batching would take lists apart.

    Args:
      dataset_name, template_config, tmvp_config: MaxText's, not looked at.
      model_tokenizer: of transformers, with a chat template.
      x: a row with a "question"; and an "answer", or "portions" as rows of food have.
    Returns:
      {"prompts", "question", "answer"}, and "portions" where the row has them.
    Raises:
      ValueError: the row has a picture, or nothing to be judged by; or its question
        spells out a control token, which MaxText would read as one.
    """
    if seen := [name for name in TEXT_ONLY if x.get(name) is not None]:
        raise ValueError(
            f"The row has {seen[0]!r}: MaxText's RL reads text only. Leave the column "
            "away, and say in the question what is on the picture."
        )
    if x.get("answer") is None and x.get("portions") is None:
        raise ValueError(f"No answer and no portions: {sorted(x)} are not judged.")
    if spelled := _controls(model_tokenizer).every.search(x["question"]):
        raise ValueError(
            f"The question spells out {spelled[0]!r}, which MaxText reads as a control "
            f"token, not as text: {x['question'][:SHOWN]!r}. Write it in another way, "
            "or leave the row away."
        )
    said = [{"role": "user", "content": x["question"]}]
    row = {
        "prompts": model_tokenizer.apply_chat_template(
            said, tokenize=False, add_generation_prompt=True
        ),
        "question": x["question"],
        "answer": json.dumps([]),
    }
    if x.get("answer") is not None:
        row["answer"] = json.dumps([str(gold_number(x["answer"]))])
    if x.get("portions") is not None:
        row["portions"] = json.dumps(x["portions"])
    return row
