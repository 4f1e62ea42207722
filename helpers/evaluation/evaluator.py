"""Measuring a model on problems with known answers.

One greedy answer per problem is what the model would hand in; several samples show what
it has in reach: `helpers.evaluation.held` asks for both. `helpers.evaluation.report`
adds grades up, and `helpers.evaluation.intervals` has the error bars.
"""

import re
from collections.abc import Sequence

from helpers.evaluation.held import Held, hold
from helpers.evaluation.report import MathsReport
from helpers.generation.dialogue import OneTurn
from helpers.rewards.functions import (
    answer_text,
    completion_text,
    extract_lenient,
    extract_strict,
    gold_number,
)

# What may change as an answer goes on: its `####` line, and a number at its very end.
UNFINISHED = re.compile(
    r"(?<=####)[^\n]*\Z|\d[\d ,./\t\u00a0\u2009\u202f]*(?:e[+-]?)?\Z", re.IGNORECASE
)


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
