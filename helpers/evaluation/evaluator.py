"""Measuring a model on problems with known answers.

One greedy answer per problem is what the model would hand in; several samples show what
it has in reach. `helpers.evaluation.report` adds them up,
`helpers.evaluation.intervals` has the error bars.
"""

import functools
import re
import time

import jax
import numpy as np

from helpers.batches.prompt_batches import pad_prompts
from helpers.evaluation.intervals import Comparison, compare, pass_at_k, wilson
from helpers.evaluation.report import Report
from helpers.generation.sampling import generate, row_keys
from helpers.rewards.functions import extract_lenient, extract_strict, gold_number
from helpers.runtime.sharding import own_rows
from helpers.text import chat

__all__ = ["Comparison", "Report", "compare", "evaluate", "pass_at_k", "wilson"]

QUIET_SECONDS = 10.0  # between two lines of progress


def evaluate(
    model,
    tokenizer,
    rows,
    *,
    max_tokens,
    samples=8,
    batch=64,
    seed=0,
    temperature=1.0,
    buckets=(64, 128, 256, 512),
    log=True,
):
    """Answers every problem once greedily and several times at random, and grades it.

    All batches have one shape, the last one filled up, so two programs compile: one
    greedy, one sampling. What is sampled depends on the seed and the problem's place
    in `rows`, not on the size of the batch.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: problems with "question" and "answer"; "level" and "names" where known.
      max_tokens: budget of an answer.
      samples: sampled answers per problem; 0 for none.
      batch: problems at a time when sampling; greedily, as many answers at a time.
      seed: decides the samples.
      temperature: of the samples.
      buckets: allowed lengths of prompts; the longest prompt decides.
      log: print a line now and then when it takes long.

    Returns:
      A Report.

    Raises:
      ValueError: there are no rows, or a gold answer has no number.
      PromptTooLong: a prompt does not fit into the largest bucket.
    """
    if not rows:
        raise ValueError("There are no rows to evaluate.")
    golds = [gold_number(row["answer"]) for row in rows]
    questions = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    prompts = pad_prompts(questions, buckets)
    keys_NG = row_keys(jax.random.key(seed), 0, len(rows), max(samples, 1))
    answer = functools.partial(
        _answers, model, tokenizer, prompts, max_tokens, batch * max(samples, 1), log
    )
    greedy = list(answer("greedy answers", keys_NG[:, :1], 0.0))
    sampled = [[]] * len(rows)
    if samples:
        sampled = list(answer("samples", keys_NG, temperature))
    people = {name for row in rows for name in row.get("names", ())}
    graded = map(_graded, rows, golds, greedy, sampled, [people] * len(rows))
    return Report(list(graded), samples)


def _answers(
    model, tokenizer, prompts, max_tokens, at_once, log, what, keys_NG, temperature
):
    """For each problem its G answers, see `_read`; `at_once` answers in a batch."""
    problems = min(at_once // keys_NG.shape[1], len(keys_NG))
    for at, real in batches(len(keys_NG), problems, what if log else None):
        completions = generate(
            model,
            *(array[at] for array in prompts),
            keys_NG[at],
            max_tokens=max_tokens,
            eos_ids=chat.eos_ids(tokenizer),
            temperature=temperature,
        )
        yield from _read(tokenizer, completions, real)


def batches(problems, size, what):
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


def _read(tokenizer, completions, real):
    """For each real problem its answers: (text, tokens, whether it ended)."""
    tokens_PGT, mask_PGT, _, ended_PG = own_rows(completions)
    for tokens_GT, mask_GT, ended_G in zip(
        tokens_PGT[:real], mask_PGT[:real], ended_PG[:real], strict=True
    ):
        yield [
            (chat.decode(tokenizer, tokens[mask > 0]), int(mask.sum()), bool(ended))
            for tokens, mask, ended in zip(tokens_GT, mask_GT, ended_G, strict=True)
        ]


def _graded(row, gold, greedy, sampled, people):
    """One entry of `Report.answers`."""
    (text, tokens, ended), texts = greedy[0], [sample[0] for sample in sampled]
    return {
        "question": row["question"],
        "level": row.get("level", 0),
        "text": text,
        "tokens": tokens,
        "ended": ended,
        "strict": extract_strict(text) == gold,
        "lenient": extract_lenient(text) == gold,
        "right": sum(extract_strict(sample) == gold for sample in texts),
        "right_lenient": sum(extract_lenient(sample) == gold for sample in texts),
        "names_kept": _names_kept(text, row, people),
    }


def _names_kept(text, row, people):
    """Whether an answer names only people of its question; None if it names nobody."""
    named = people.intersection(re.findall(r"\w+", text))
    return named.issubset(row["names"]) if named and "names" in row else None
