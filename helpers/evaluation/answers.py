"""Answers of a model to rows: one greedy, several sampled.

`helpers.evaluation.evaluator` asks for them and grades them.
"""

import functools
import time
import warnings
from typing import NamedTuple

import jax
import numpy as np

from helpers.batches import images
from helpers.batches.prompt_batches import open_conversations, pad_prompts
from helpers.generation.sampling import Dialogue, row_keys, sampled_ids
from helpers.text import chat
from helpers.tools.tool import Trace

QUIET_SECONDS = 10.0  # between two lines of progress


class Answer(NamedTuple):
    """One answer: text, length in tokens, whether an EOS ended it; the tokens."""

    text: str | Trace
    tokens: int
    ended: bool
    ids: list[int] | None = None


def generate_answers(
    model,
    tokenizer,
    rows,
    dialogue: Dialogue,
    *,
    max_tokens,
    samples=8,
    batch=64,
    seed=0,
    buckets=(64, 128, 256, 512),
    pictures=None,
    log=True,
) -> list[tuple[Answer, list[Answer]]]:
    """Answers every row once greedily and several times at random.

    All batches have one shape (the last one is filled up), so two programs compile: one
    greedy, one sampling. The samples depend on the seed and on the row's place in
    `rows`, not on the size of the batch.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: a list, each with a "question", str or messages.
      dialogue: how an answer is produced: in one turn, or with an environment.
      max_tokens: budget of a turn.
      samples: sampled answers per row; 0 for none.
      batch: rows at a time when sampling; when decoding greedily, answers at a time.
      seed: of the samples.
      buckets: allowed lengths of prompts; the longest prompt decides.
      pictures: `pictures(row)` gives the list of a row's pictures; None: no row has
        any.
      log: print a line of progress every ten seconds.

    Returns:
      For each row the greedy answer, and a list of the sampled ones.

    Raises:
      ValueError: there are no rows.
      PromptTooLong: a prompt does not fit into the largest bucket.
      helpers.runtime.ranges.TextTooLong: a prompt and its answer may be longer than the
        model's context.
      images.ImageMismatch: see `prompt_batches.prompts`.
    """
    if not rows:
        raise ValueError("There are no rows to evaluate.")
    prompts = _prompts(model, tokenizer, rows, dialogue, buckets, pictures, seed)
    keys_NG = row_keys(jax.random.key(seed), 0, len(rows), max(samples, 1))

    def answers(title, keys_NG, size, temperature):
        settings = {"max_tokens": max_tokens, "temperature": temperature}
        sample = functools.partial(dialogue.answers, model, tokenizer, **settings)
        return _in_batches(sample, prompts, keys_NG, size, title if log else None)

    # Greedily as many answers at a time as when sampling.
    greedy = answers("greedy answers", keys_NG[:, :1], batch * max(samples, 1), 0.0)
    sampled = answers("samples", keys_NG, batch, 1.0) if samples else [[] for _ in rows]
    return [(one, several) for (one,), several in zip(greedy, sampled, strict=True)]


def _prompts(model, tokenizer, rows, dialogue, buckets, pictures, seed):
    """The rows' prompts as one batch, pictures included."""
    vision = model.config.vision if pictures else None
    if dialogue.has_openings:
        order = seed, range(len(rows))
        questions, given = open_conversations(dialogue, rows, *order)
    else:
        questions, given = [row["question"] for row in rows], {"rows": rows}
    tokens = chat.prompts_tokens(
        tokenizer, questions, tools=dialogue.schemas, vision=vision
    )
    prompt, mask = pad_prompts(tokens, buckets)
    prompts = given | {"prompt": prompt, "prompt_mask": mask}
    if pictures:
        counts = images.counts(tokens, vision)
        slots = max(1, *map(len, counts))
        stacked = images.stack([pictures(row) for row in rows], counts, slots, vision)
        prompts["images"] = stacked
    return prompts


def _in_batches(sample, prompts, keys_NG, size, title):
    """A list of G Answers for each row; every batch has one shape.

    Args:
      sample: `Dialogue.answers` of a model, a tokenizer and settings.
      size: rows at a time; the last batch is filled up with its last row.
      title: of a line of progress every ten seconds; None: nothing is printed.
    """
    rows, answers = len(keys_NG), []
    size = min(size, rows)
    begin = printed = time.monotonic()
    for start in range(0, rows, size):
        chosen = np.minimum(np.arange(start, start + size), rows - 1)
        batch = {
            name: x[chosen] if isinstance(x, np.ndarray) else [x[i] for i in chosen]
            for name, x in prompts.items()
        }
        result = sample(batch, keys_NG[chosen])
        if result.failed.any():
            warnings.warn(f"{result.failed.sum()} environments failed.", stacklevel=2)
        lengths = result.mask.sum(axis=-1).tolist()
        ids = sampled_ids(result.tokens, result.mask)
        groups = zip(result.texts, lengths, result.ended.tolist(), ids, strict=True)
        answers += [[*map(Answer, *group)] for group in groups]
        now, done = time.monotonic(), start + size
        if title and now - printed > QUIET_SECONDS and done < rows:
            left = (now - begin) * (rows / done - 1)
            print(f"{title}: {done} of {rows}, {left:.0f} s left", flush=True)
            printed = now
    return answers[:rows]
