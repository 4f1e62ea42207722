"""Batch sources for data that is known before training: Grain order, our packing.

A *batch source* is what the trainer draws from: `next(source)` gives a dict of arrays,
`source.get_state()` a small JSON-able dict, and `source.set_state(state)` continues
from there exactly, in another process if need be. `source.metrics` describes the last
batch, `source.samples` is a table for the log (empty here: nothing is sampled).

Grain (https://google-grain.readthedocs.io) counts positions, shares them out between
processes and keeps the place (`helpers.batches.sources`).
"""

import numpy as np

from helpers.batches import images
from helpers.batches.packing import ExampleTooLong, packed_rows
from helpers.batches.sources import Curriculum, Source
from helpers.runtime.run_identity import describe_lists, describe_rows
from helpers.text import chat

__all__ = ["ExampleTooLong", "PromptTooLong", "packed_rows", "pad_prompts", "prompts"]


class PromptTooLong(ValueError):
    """A prompt has more tokens than the largest bucket."""


def prompts(
    rows,
    tokenizer,
    *,
    batch,
    buckets=(64, 128, 256),
    seed,
    epochs=None,
    pictures=None,
    vision=None,
    environment=None,
    curriculum=False,
):
    """Make a batch source of prompts to answer, for rollouts.

    Args:
      rows: list of dicts with a "question": str or list of messages.
      tokenizer: from `chat.load_tokenizer`.
      batch: P, prompts per batch and process.
      buckets: allowed padded lengths Tp, so that few programs are compiled.
      seed: int, at least 0, decides the order of every epoch.
      epochs: how often to go through the rows; None for ever. The last batch of a
        finite run may be smaller.
      pictures: `pictures(row)` gives the list of a row's pictures, each from
        `images.fit_for`, when its batch is made; None: no row has any.
      vision: the model's `config.vision`, needed with pictures.
      environment: that of the `Rollouts`. Its chat template's tools are in the prompts,
        and what its `reset` begins with takes the place of a row's question, with a new
        seed whenever the row is drawn. None: there is none.
      curriculum: draw rows by how often their answers were right (`Curriculum`), not
        each once per epoch.
    Returns:
      A batch source of {"prompt": (P, Tp) int32 right-padded with 0, "prompt_mask":
      (P, Tp) int32, "rows": list of P dicts} and, if there are pictures, "images": see
      `images.stack`; N is the most images that any of the prompts has. metrics:
      `prompt_tokens` (mean) and `epoch` (a fraction).
    Raises:
      PromptTooLong: a prompt does not fit in the largest bucket.
      images.ImageMismatch: a prompt's image tokens are no whole images or, when its
        batch is made, not as many as its pictures.
      ValueError: no rows, or the chat template takes no notice of the tools; or there
        are pictures, and an environment that begins conversations.
    """
    tools = environment.schemas if environment else None
    opens = environment is not None and environment.has_openings
    if opens and pictures:
        raise ValueError("Pictures go with questions of rows, not with openings.")
    questions = [] if opens else [row["question"] for row in rows]
    tokens = chat.prompts_tokens(tokenizer, questions, tools=tools, vision=vision)
    shown = images.Pictures(pictures, rows, tokens, vision) if pictures else None
    # A reward is given the same columns in every batch, whichever rows are in it.
    columns = dict.fromkeys(name for row in rows for name in row)

    def make(drawn):
        given = {"rows": [columns | rows[i] for (i,) in drawn]}
        if opens:
            order = seed, source.places(len(drawn))
            questions, given = open_conversations(environment, given["rows"], *order)
            ids = chat.prompts_tokens(tokenizer, questions, tools=tools, vision=vision)
        else:
            ids = [tokens[i] for (i,) in drawn]
        prompt, mask = pad_prompts(ids, buckets)
        arrays = {"prompt": prompt, "prompt_mask": mask}
        return arrays | given, {"prompt_tokens": float(mask.sum(1).mean())}

    def describe():
        if opens:
            return {"environment": environment.describe()} | describe_rows(rows)
        ids = describe_lists(np.asarray(t, np.int32) for t in tokens)
        return {"tokens": ids} | describe_rows(rows)

    run = {"batch": batch, "seed": seed}
    lengths = [max(buckets)] * len(rows) if opens else [len(t) for t in tokens]
    kind = Curriculum if curriculum else Source
    source = kind(run, epochs, lengths, make, describe, shown)
    if tokens:  # refuses one that is too long, before any training
        pad_prompts(tokens, buckets)
    return source


def open_conversations(environment, rows, seed, places):
    """Lets an environment begin a conversation for each row.

    Args:
      places: of the conversations in an order; each has a seed of its own.
    Returns:
      (questions, what goes with their prompts: "rows", "seeds" and "openings").
    """
    sequences = [np.random.SeedSequence([seed, place]) for place in places]
    seeds = [int(sequence.generate_state(1)[0]) for sequence in sequences]
    openings = list(map(environment.opening, rows, seeds))
    questions = [
        opening or row["question"] for opening, row in zip(openings, rows, strict=True)
    ]
    return questions, {"rows": rows, "seeds": seeds, "openings": openings}


def pad_prompts(token_lists, buckets):
    """Pad prompts on the right to the smallest bucket that holds them all.

    Args:
      token_lists: list of P lists of int.
      buckets: allowed lengths Tp.
    Returns:
      (prompt, prompt_mask): int32 arrays (P, Tp); padding is id 0 with mask 0.
    Raises:
      PromptTooLong: a prompt does not fit in the largest bucket.
    """
    longest = max(range(len(token_lists)), key=lambda i: len(token_lists[i]))
    count = len(token_lists[longest])
    if count > max(buckets):
        raise PromptTooLong(
            f"Prompt {longest} has {count} tokens, the largest bucket is "
            f"{max(buckets)}. Shorten the prompt, or pass larger buckets, for example "
            f"buckets={(*sorted(buckets), 2 ** (count - 1).bit_length())}."
        )
    width = min(bucket for bucket in buckets if bucket >= count)
    prompt = np.zeros((len(token_lists), width), np.int32)
    mask = np.zeros_like(prompt)
    for row, tokens in enumerate(token_lists):
        prompt[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return prompt, mask
