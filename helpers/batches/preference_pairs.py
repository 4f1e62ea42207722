"""Pairs to batches: a prompt with the answer that is preferred and one that is not.

Rows are TRL's (`explicit`). A batch is that of rollouts with groups of two, so that
whatever scores groups scores pairs.
"""

import itertools
import re

import numpy as np

from helpers.batches.packing import ExampleTooLong
from helpers.batches.prompt_batches import pad_prompts
from helpers.batches.sources import Source
from helpers.runtime.run_identity import describe_lists
from helpers.text import chat
from helpers.text.messages import require_messages

SIDES = ("chosen", "rejected")


def pairs(
    rows, tokenizer, *, batch, max_tokens, buckets=(64, 128, 256), seed, epochs=None
):
    """Make a batch source of preference pairs, for DPO and ORPO.

    Args:
      rows: list of dicts with a "question" or "prompt" and two answers, "chosen" and
        "rejected", in any form of `explicit`.
      tokenizer: from `chat.load_tokenizer`; answers get its end of a turn.
      batch: P, pairs per batch and process.
      max_tokens: T, tokens of the longest answer, its end of the turn included.
      buckets: allowed padded lengths Tp of prompts.
      seed: int, at least 0, decides the order of every epoch.
      epochs: how often to go through the rows; None for ever. The last batch of a
        finite run may be smaller.
    Returns:
      A batch source of {"prompt": (P, Tp) int32 right-padded with 0, "prompt_mask":
      (P, Tp) int32, "completion": (P, 2, T) int32, the chosen answer first,
      "loss_mask": (P, 2, T) float32, 1 on each token of an answer}. metrics:
      `answer_tokens` (mean) and `epoch` (a fraction).
    Raises:
      PromptTooLong: a prompt does not fit in the largest bucket.
      ExampleTooLong: an answer has more than `max_tokens` tokens.
      ValueError: no rows, an empty answer, two answers that are the same, or a pair
        without a prompt.
    """
    rows = [_explicit(index, row) for index, row in enumerate(rows)]
    questions = [row["question"] for row in rows]
    prompts, sides = chat.prompts_tokens(tokenizer, questions), []
    for side in SIDES:
        texts = [row[side] for row in rows]
        examples = chat.examples_tokens(tokenizer, questions, texts)
        sides.append([list(itertools.compress(*example)) for example in examples])
    both = list(zip(*sides, strict=True))
    _check(both, max_tokens)

    def make(drawn):
        prompt, prompt_mask = pad_prompts([prompts[i] for (i,) in drawn], buckets)
        answers = [answer for (i,) in drawn for answer in both[i]]
        completion, mask = (
            x.reshape(-1, 2, max_tokens) for x in pad_prompts(answers, (max_tokens,))
        )
        loss_mask = mask.astype(np.float32)
        arrays = {"prompt": prompt, "prompt_mask": prompt_mask}
        arrays |= {"completion": completion, "loss_mask": loss_mask}
        return arrays, {"answer_tokens": float(loss_mask.sum(-1).mean())}

    def describe():
        texts = zip(("prompts", *SIDES), (prompts, *sides), strict=True)
        return {name: describe_lists(lists) for name, lists in texts}

    run = {"batch": batch, "seed": seed}
    run |= {"max_tokens": max_tokens, "buckets": list(buckets)}
    longest = (max(map(len, pair)) for pair in both)
    lengths = [len(p) + n for p, n in zip(prompts, longest, strict=True)]
    source = Source(run, epochs, lengths, make, describe)
    pad_prompts(prompts, buckets)  # refuses one that is too long, before any training
    return source


def explicit(row) -> dict:
    """The row with a question and two texts, from any form of TRL's.

    Args:
      row: has a "chosen" and a "rejected" answer, and a "question" or "prompt", each a
        text or a list of messages. Where there is no prompt, both answers begin with
        it; they may repeat it, too.
    Returns:
      The row; its "question" is a text or a list of messages, both answers are texts.
    Raises:
      ValueError: there is no prompt, both answers are the same, or one is empty or more
        than one text.
    """
    rest = {n: x for n, x in row.items() if n not in ("prompt", "question", *SIDES)}
    prompt = row.get("question") or row.get("prompt")
    sides = [row.get(side) or "" for side in SIDES]
    if not all(isinstance(side, str) for side in sides):
        prompt, sides = _after_shared_messages(prompt, sides)
    elif not prompt and not any(isinstance(value, str) for value in rest.values()):
        prompt = re.split(r"\S*\Z", _shared(*sides))[0]  # whole words
        sides = [side[len(prompt) :] for side in sides]
    if not prompt:
        raise ValueError(
            "There is no prompt. Rename the column that holds it to prompt, as "
            'custom_rows does by columns={"question": …}; or let both answers begin '
            "with it, without other texts beside them."
        )
    chosen, rejected = (side.strip() for side in sides)
    if chosen == rejected or not chosen or not rejected:
        raise ValueError(
            "The two answers are the same, or one is empty: nothing is compared. Give "
            "both a text, or drop the pair."
        )
    return rest | {"question": prompt} | dict(zip(SIDES, sides, strict=True))


def _explicit(index, row):
    try:
        return explicit(row)
    except ValueError as error:
        raise ValueError(f"Pair {index}: {error}") from error


def _shared(one, other):
    """What two texts, or two lists of messages, begin with."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def _after_shared_messages(prompt, sides):
    """The prompt, and the text of each side after what both sides begin with."""
    prompt = _as_messages(prompt or [], "user")
    chats = [_as_messages(side, "assistant") for side in sides]
    shared = _shared(*(messages[:-1] for messages in chats))
    if not prompt or prompt[-1] in shared:
        prompt = []  # they repeat it
    answers = [messages[len(shared) :] for messages in chats]
    for answer in answers:
        forms = [(m["role"], type(m["content"])) for m in answer]
        if forms != [("assistant", str)]:
            raise ValueError(
                "After what both have in common, each answer of a pair must be one "
                f"message of the assistant's with a text. Here it is {answer!r:.200}."
            )
    return prompt + shared, [answer[0]["content"] for answer in answers]


def _as_messages(value, role):
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return require_messages([value] if isinstance(value, dict) else value)


def matched(answers):
    """The pairs of a group that differ only in their slips.

    Args:
      answers: to one question, dicts of "text", "slips" (how many mistakes a judge
        counts) and "bare", what the text is without the words that are judged.
    Returns:
      List of (chosen text, rejected text): each answer with each equally bare one that
      has more slips.
    """
    return [
        (chosen["text"], rejected["text"])
        for chosen, rejected in itertools.permutations(answers, 2)
        if chosen["slips"] < rejected["slips"] and chosen["bare"] == rejected["bare"]
    ]


def _check(both, max_tokens):
    """Refuses answers that are too long."""
    for index, pair in enumerate(both):
        if (longest := max(map(len, pair))) > max_tokens:
            raise ExampleTooLong(
                f"An answer of pair {index} has {longest} tokens, max_tokens is "
                f"{max_tokens}. Pass more, or drop the pair."
            )
