"""The answers that are held against what is right: one greedy, several at random.

`helpers.evaluation.evaluator` grades those to problems with known answers,
`helpers.evaluation.scored` lets a reward judge them, and
`helpers.evaluation.tool_evaluate` grades conversations about food.
"""

import functools
import itertools
import time
from typing import NamedTuple

import jax
import numpy as np

from helpers.batches import images
from helpers.batches.prompt_batches import pad_prompts
from helpers.generation.dialogue import Dialogue
from helpers.generation.sampling import row_keys
from helpers.runtime.ranges import require_count, require_positions
from helpers.text import chat
from helpers.tools.tool import Trace

QUIET_SECONDS = 10.0  # between two lines of progress


class Held(NamedTuple):
    """One answer: what was said, in how many tokens, and whether it ended by itself."""

    text: str | Trace
    tokens: int
    ended: bool


def hold(
    model,
    tokenizer,
    rows,
    dialogue: Dialogue,
    *,
    max_tokens,
    samples,
    batch,
    seed,
    temperature,
    buckets,
    pictures=None,
    log=True,
) -> list[tuple[Held, list[Held]]]:
    """Answers every row once greedily and several times at random.

    All batches have one shape, the last one filled up, so two programs compile: one
    greedy, one sampling. What is sampled depends on the seed and the row's place in
    `rows`, not on the size of the batch.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: a list, each with a "question", str or messages.
      dialogue: how an answer comes about.
      max_tokens: budget of a turn.
      samples: sampled answers per row; 0 for none.
      batch: rows at a time when sampling; greedily, as many answers at a time.
      seed, temperature: of the samples.
      buckets: allowed lengths of prompts; the longest prompt decides.
      pictures: `pictures(row)` gives the list of a row's pictures; None: no row has
        any.
      log: print a line now and then when it takes long.

    Returns:
      For each row the greedy answer, and a list of the sampled ones.

    Raises:
      ValueError: rows are none or no list, a size is no such number, or several samples
        would be the same.
      PromptTooLong: a prompt does not fit into the largest bucket.
      helpers.runtime.ranges.TextTooLong: a prompt and its answer may be longer than the
        texts that the model was made for.
      images.ImageMismatch: see `prompt_batches.prompts`.
    """
    _require_something_to_measure(rows, max_tokens, batch, samples, temperature)
    prompts = _prompts(model, tokenizer, rows, dialogue, buckets, pictures)
    longest = int(prompts["prompt_mask"].sum(axis=-1).max())
    what = f"The longest prompt and an answer with max_tokens={max_tokens}"
    most = longest + dialogue.width(max_tokens)
    require_positions(getattr(model, "config", None), most, what)
    keys_NG = row_keys(jax.random.key(seed), 0, len(rows), max(samples, 1))
    ask = functools.partial(dialogue.answers, model, tokenizer, max_tokens=max_tokens)

    def answers(what, keys_NG, temperature):
        size = min(batch * max(samples, 1) // keys_NG.shape[1], len(rows))
        asked = functools.partial(ask, temperature=temperature)
        return _answers(asked, prompts, keys_NG, size, what if log else None)

    greedy = [some[0] for some in answers("greedy answers", keys_NG[:, :1], 0.0)]
    sampled: list[list[Held]] = [[] for _ in rows]
    if samples:
        sampled = list(answers("samples", keys_NG, temperature))
    return list(zip(greedy, sampled, strict=True))


def _require_something_to_measure(rows, max_tokens, batch, samples, temperature):
    """Refuses rows, sizes and a temperature of `hold` that measure nothing."""
    if not hasattr(rows, "__len__"):  # they are read again when answers are graded
        raise ValueError(f"rows is a {type(rows).__name__}: pass list(rows).")
    if not rows:
        raise ValueError("There are no rows to evaluate.")
    require_count("max_tokens", max_tokens)
    require_count("batch", batch)
    require_count("samples", samples, least=0)
    if samples > 1 and temperature == 0:
        raise ValueError(
            f"samples={samples} at temperature=0 would be one answer {samples} times. "
            "Pass a temperature above 0, or samples=0: greedy answers come anyway."
        )


def _answers(ask, prompts, keys_NG, size, what):
    """The answers of each row in turn; `size` rows are asked at a time."""
    for at, real in _batches(len(keys_NG), size, what):
        got = ask({name: array[at] for name, array in prompts.items()}, keys_NG[at])
        each = zip(got.texts, got.mask.sum(axis=-1), got.ended, strict=True)
        yield from itertools.starmap(_held, itertools.islice(each, real))


def _held(texts, counts, ended):
    """The answers of one row, from the lists and arrays of a batch."""
    return [
        Held(text, int(count), bool(end))
        for text, count, end in zip(texts, counts, ended, strict=True)
    ]


def _prompts(model, tokenizer, rows, dialogue, buckets, pictures):
    """The rows' prompts as one batch, pictures included."""
    vision = model.config.vision if pictures else None
    tokens = chat.prompts_tokens(
        tokenizer,
        [row["question"] for row in rows],
        tools=dialogue.schemas,
        vision=vision,
    )
    prompt, mask = pad_prompts(tokens, buckets)
    prompts = {"prompt": prompt, "prompt_mask": mask}
    if pictures:
        counts = images.counts(tokens, vision)
        own, slots = [pictures(row) for row in rows], max(1, *map(len, counts))
        prompts["images"] = images.stack(own, counts, slots, vision)
    return prompts


def _batches(problems, size, what):
    """Indices of each batch, always `size` of them, and how many are not filling."""
    begin = spoken = time.monotonic()
    for start in range(0, problems, size):
        real = min(size, problems - start)
        yield np.minimum(np.arange(start, start + size), problems - 1), real
        now, done = time.monotonic(), start + real
        if what and now - spoken > QUIET_SECONDS and done < problems:
            left = (now - begin) * (problems / done - 1)
            print(f"{what}: {done} of {problems}, {left:.0f} s left", flush=True)
            spoken = now
