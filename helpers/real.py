"""The lessons' world with real weights: the preset's model, and GSM8K beside it.

On a laptop the notebooks train the shipped tiny model on generated problems. On a TPU
their last section runs the same calls on what stands here.
"""

import dataclasses
import os

from helpers import chat, runtime
from helpers.model import hub, lora, weights
from helpers.tasks import gsm8k

ASK = (
    "\nWork it out step by step. End with a line that holds #### and the number, such "
    "as #### 42."
)


@dataclasses.dataclass(frozen=True)
class World:
    """What a lesson on real weights needs.

    Attributes:
      policy: the preset's model with fresh adapters, over all devices.
      tokenizer: its own.
      train, test: GSM8K's rows {"question", "answer", "level"} whose question fits the
        preset's budget; the question ends by asking for the final line that is graded.
      left_out: how many rows did not fit.
    """

    policy: object
    tokenizer: object
    train: list
    test: list
    left_out: int


def world(preset) -> World:
    """Fetches model and data of a preset and says what it did.

    Args:
      preset: from `runtime.preset`; COURSE_GSM8K may name a folder with GSM8K's files,
        and `preset.model` a folder with a model, where there is no network.
    Raises:
      helpers.model.hub.ModelUnavailable, ConnectionError: one cannot be had; says what
        to do.
    """
    folder = hub.fetch(preset.model)
    tokenizer = chat.load_tokenizer(folder)
    base = weights.load(folder, mesh=runtime.make_mesh(), dtype=preset.dtype)
    splits, left_out = [], 0
    for split in gsm8k.SPLITS:
        rows = gsm8k.load(os.environ.get("COURSE_GSM8K"), split)
        rows = [row | {"question": row["question"] + ASK} for row in rows]
        prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
        short = [len(prompt) <= preset.prompt_tokens for prompt in prompts]
        splits.append([row for row, fits in zip(rows, short, strict=True) if fits])
        left_out += len(rows) - sum(short)
    print(
        f"{preset.model}, rank {preset.lora_rank} adapters; {len(splits[0])} training "
        f"and {len(splits[1])} test questions, {left_out} longer than "
        f"{preset.prompt_tokens} tokens left out"
    )
    return World(lora.add(base, preset.lora_rank), tokenizer, *splits, left_out)
