"""Measuring a model on problems with known answers.

One greedy answer per problem is what the model would hand in; several samples show what
it has in reach. `helpers.evaluation.report` adds them up,
`helpers.evaluation.intervals` has the error bars, and
`helpers.evaluation.tool_evaluate` grades conversations about food with the same loop.
"""

import functools
import itertools
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from helpers.batches import images
from helpers.batches.prompt_batches import pad_prompts
from helpers.evaluation.intervals import Comparison, compare, pass_at_k, wilson
from helpers.evaluation.report import MathsReport, Report
from helpers.generation.dialogue import Dialogue
from helpers.generation.one_turn import OneTurn
from helpers.generation.sampling import row_keys
from helpers.rewards.functions import (
    answer_text,
    completion_text,
    extract_lenient,
    extract_strict,
    gold_number,
)
from helpers.runtime.ranges import require_count, require_positions
from helpers.text import chat
from helpers.tools.traces import Trace

__all__ = [
    "Comparison",
    "Held",
    "MathsReport",
    "Report",
    "compare",
    "evaluate",
    "hold",
    "pass_at_k",
    "wilson",
]

QUIET_SECONDS = 10.0  # between two lines of progress
# What may change as an answer goes on: its `####` line, and a number at its very end.
UNFINISHED = re.compile(
    r"(?<=####)[^\n]*\Z|\d[\d ,./\t\u00a0\u2009\u202f]*(?:e[+-]?)?\Z", re.IGNORECASE
)


class Held(NamedTuple):
    """One answer: what was said, in how many tokens, and whether it ended by itself."""

    text: str | Trace
    tokens: int
    ended: bool


def evaluate(
    model,
    tokenizer,
    rows,
    *,
    max_tokens,
    tools=None,
    samples=8,
    batch=64,
    seed=0,
    temperature=1.0,
    buckets=(64, 128, 256, 512),
    stop: str | Sequence[str] | re.Pattern | None = None,
    log=True,
) -> MathsReport:
    """Answers every problem once greedily and several times at random, and grades it.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: problems with "question" and "answer"; "level" and "names" where known.
      max_tokens: budget of an answer; with a `ToolUse`, of each of its turns.
      tools: a `tool_use.ToolUse`, or a `calculator_use.CalculatorUse` to measure with a
        calculator; None: answers of one turn, without.
      samples, batch, seed, temperature, buckets, log: see `hold`.
      stop: each answer ends with its first match, as if generation had stopped there:
        a text, several, or a pattern such as `wordings.FINAL_LINE`, for a model that
        goes on after it. An answer's `tokens` count what was sampled all the same.
        None: only a token ends it.

    Returns:
      A MathsReport. Of an answer that ran out of budget, a `####` line without its end
      and digits at the very end are not read: the number might have gone on.

    Raises:
      ValueError: there are no rows, a gold answer has no number, stop is none or
        would end every answer, or answers in several turns are to stop; or see `hold`.
      PromptTooLong: a prompt does not fit into the largest bucket.
    """
    if stop is not None and tools:
        raise ValueError("stop is for answers of one turn: leave out tools, or stop.")
    stop, rows = _ending(stop), list(rows)
    golds = [gold_number(row["answer"]) for row in rows]
    held = hold(
        model,
        tokenizer,
        rows,
        tools or OneTurn(),
        max_tokens=max_tokens,
        samples=samples,
        batch=batch,
        seed=seed,
        temperature=temperature,
        buckets=buckets,
        log=log,
    )
    people = {name for row in rows for name in row.get("names", ())}
    graded = [
        _graded(
            row, gold, _stopped(greedy, stop), [_stopped(x, stop) for x in some], people
        )
        for row, gold, (greedy, some) in zip(rows, golds, held, strict=True)
    ]
    return MathsReport(graded, samples)


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


def _ending(stop) -> re.Pattern | None:
    """`evaluate`'s stop as a pattern, or a ValueError that says why it is none."""
    if stop is None:
        return None
    pattern, texts = stop, [stop] if isinstance(stop, str) else stop
    if isinstance(texts, list | tuple) and all(isinstance(x, str) for x in texts):
        # Looked for backwards: of two that overlap, the one that ends first stops.
        ends = [f"(?<={re.escape(x)})" if x else "" for x in texts]
        pattern = re.compile("|".join(ends))
    is_text = isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str)
    if not is_text or pattern.search(""):
        raise ValueError(
            f"stop={stop!r}: pass a text, a list of texts or re.compile(...) of one. "
            "None may be found in an empty text: every answer would end there."
        )
    return pattern


def _stopped(answer: Held, stop) -> Held:
    """The answer as it would be, had generation stopped at the first match."""
    text = completion_text(answer.text)
    found = stop and stop.search(text)
    return answer._replace(text=text[: found.end()], ended=True) if found else answer


def _graded(row, gold, greedy, sampled, people):
    """One entry of `Report.answers`."""
    text = completion_text(greedy.text)
    return {
        "question": row["question"],
        "gold": str(gold),
        "level": row.get("level", 0),
        "text": text,
        "tokens": greedy.tokens,
        "ended": greedy.ended,
        "strict": _is_right(extract_strict, greedy, gold),
        "lenient": _is_right(extract_lenient, greedy, gold),
        "right": sum(_is_right(extract_strict, x, gold) for x in sampled),
        "right_lenient": sum(_is_right(extract_lenient, x, gold) for x in sampled),
        "names_kept": _names_kept(text, row, people),
    }


def _is_right(extract, answer: Held, gold):
    """Whether an answer reads as the gold one.

    One that was cut off must do so without what is `UNFINISHED`, too: nobody knows how
    `#### 1` or `#### 5 mill` would have gone on.
    """
    text = answer_text(answer.text)
    readings = [text] if answer.ended else [text, UNFINISHED.sub("", text)]
    return all(extract(reading) == gold for reading in readings)


def _names_kept(text, row, people):
    """Whether an answer names only people of its question; None if it names nobody."""
    named = people.intersection(re.findall(r"\w+", text))
    return named.issubset(row["names"]) if named and "names" in row else None
