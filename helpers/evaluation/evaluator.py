"""Measuring a model: problems with known answers, tool calls, or a reward of your own.

One greedy answer per problem is what the model would hand in. Several samples show what
it can reach. `helpers.evaluation.report` adds the grades up, and
`helpers.evaluation.intervals` has the error bars.
"""

import functools
import math
import re

import jax

from helpers.evaluation.answers import Answer, generate_answers
from helpers.evaluation.report import FoodReport, MathsReport, Scores, load_or_run
from helpers.generation.sampling import Dialogue
from helpers.rewards import food_rewards
from helpers.rewards.answers import extract_lenient, extract_strict
from helpers.rewards.functions import (
    Reward,
    RewardSet,
    answer_text,
    completion_text,
    environments_of,
    gold_number,
    row_columns,
)
from helpers.runtime import run_identity

# What may change as a truncated answer goes on: its `####` line, and a number at its
# very end.
UNFINISHED = re.compile(
    r"(?i)(?<=####)[^\n]*\Z|\d[\d ,.:'’_/\t\u00a0\u2007\u2009\u202f]*(?:e[+-]?)?\Z"
)

# Ways of putting a question, and `evaluate`'s stop for models that go on after it.
WORDINGS = {
    "bare": "{question}",
    "end": "{question}\nEnd with a line that holds #### and the number.",
    "steps": "{question}\nWork it out step by step. End with a line that holds #### "
    "and the number, such as #### 42.",
    "first": "Answer with #### and a number, such as #### 42. {question}",
    "example": "Question: Ann has 5 pens and buys 7. How many pens has she?\n"
    "Answer: Ann has <<5+7=12>>12 pens.\n#### 12\n\nQuestion: {question}\nAnswer:",
}
FINAL_LINE = re.compile(r"####[^\n]*\d[^\n]*\n")


def evaluate(
    model,
    tokenizer,
    rows,
    *,
    environment=None,
    samples=8,
    stop: re.Pattern | None = None,
    **settings,
) -> MathsReport:
    """Answers every problem once greedily and several times at random, and grades it.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: problems with "question" and "answer"; "level" and "names" where known.
      environment: a `ToolUse` or an `EnvironmentUse`, or a `CalculatorUse` to measure
        with a calculator; None: answers of one turn.
      samples: sampled answers per problem.
      stop: each answer ends with its first match, as if generation had stopped there,
        such as `FINAL_LINE` for a model that goes on after it. An answer's `tokens`
        count everything that was sampled. None: only an EOS does. For answers without
        tools.
      settings: max_tokens and more for `generate_answers`.

    Returns:
      A MathsReport. In a truncated answer, an unfinished `####` line and digits at the
      very end are not read: the number might have gone on.

    Raises:
      ValueError: a gold answer has no number; or see `generate_answers`.
      PromptTooLong: a prompt does not fit into the largest bucket.
    """
    rows = list(rows)
    golds = [gold_number(row["answer"]) for row in rows]
    how = environment or Dialogue()
    answers = generate_answers(model, tokenizer, rows, how, samples=samples, **settings)
    people = {name for row in rows for name in row.get("names", ())}
    graded = [
        _graded(row, gold, _cut(greedy, stop), [_cut(x, stop) for x in sampled], people)
        for row, gold, (greedy, sampled) in zip(rows, golds, answers, strict=True)
    ]
    return MathsReport(graded, samples)


def _cut(answer: Answer, stop) -> Answer:
    """The answer, without thoughts, as if generation had stopped at the first match."""
    text = answer_text(answer.text)
    match = stop and stop.search(text)
    return answer._replace(text=text[: match.end()], ended=True) if match else answer


def _graded(row, gold, greedy, sampled, people):
    """One entry of `MathsReport.answers`."""
    text = completion_text(greedy.text)
    named = people.intersection(re.findall(r"\w+", text))
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
        "names_kept": named <= {*row["names"]} if named and "names" in row else None,
    }


def _is_right(extract, answer: Answer, gold):
    """Whether an answer reads as the gold one.

    A truncated one must do so without what is `UNFINISHED`, too: nobody knows how
    `#### 1` or `#### 5 mill` would have gone on.
    """
    text = answer_text(answer.text)
    readings = [text] if answer.ended else [text, UNFINISHED.sub("", text)]
    return all(extract(reading) == gold for reading in readings)


def evaluate_food(
    model, tokenizer, rows, tools, *, samples=8, batch=32, **settings
) -> FoodReport:
    """Has one greedy conversation about every row and several sampled ones.

    An answer is right where `helpers.rewards.food_rewards.solved` says so: the right
    foods and grams looked up, and the tool's number answered.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: with "question" and "portions", see `food_traces.ask`.
      tools: a `tool_use.ToolUse`.
      samples: sampled conversations per row.
      batch, settings: max_tokens, pictures and more for `generate_answers`.
    Raises:
      ValueError, PromptTooLong, images.ImageMismatch: see `generate_answers`.
    """
    settings |= {"samples": samples, "batch": batch}
    answers = generate_answers(model, tokenizer, rows, tools, **settings)
    graded = [
        _graded_food(row, greedy, sampled)
        for row, (greedy, sampled) in zip(rows, answers, strict=True)
    ]
    return FoodReport(graded, samples)


def _graded_food(row, greedy, sampled):
    """One entry of `FoodReport.answers`."""
    trace, portions = greedy.text, row["portions"]

    def scores(reward, *traces):
        return reward([], traces, portions=[portions] * len(traces))

    def score_if(applies, reward):
        return scores(reward, trace)[0] if applies else None

    solved = scores(food_rewards.solved, trace, *(answer.text for answer in sampled))
    right = [
        answer.ended and score == 1
        for answer, score in zip([greedy, *sampled], solved, strict=True)
    ]
    return {
        "question": row.get("text", row["question"]),
        "gold": portions,
        "level": row.get("level", 0),
        "text": str(trace),
        "tokens": greedy.tokens,
        "ended": greedy.ended,
        "strict": right[0],
        "right": sum(right[1:]),
        "trace": trace,
        "calls": len(trace.calls),
        "declined": score_if(not portions, food_rewards.declined),
        "valid": score_if(portions, food_rewards.well_formed),
        "food": score_if(portions, food_rewards.right_food),
        "grams": score_if(portions, food_rewards.right_grams),
    }


def score(
    model,
    tokenizer,
    rows,
    reward: Reward | RewardSet,
    *,
    environment: Dialogue | None = None,
    batch=64,
    **settings,
) -> Scores:
    """Answers every row greedily, and scores the answers by a reward of your own.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: with a "question"; all further columns go to the reward.
      reward: a `rewards.RewardSet`, or what makes one, such as a reward function.
      environment: as for `evaluate`.
      batch: answers at a time; at least one for each device.
      settings: max_tokens, buckets and log for `generate_answers`.
    Raises:
      ValueError: there are no rows.
      PromptTooLong: a prompt does not fit into the largest bucket.
      helpers.rewards.RewardError: the reward failed on an answer.
    """
    reward = reward if isinstance(reward, RewardSet) else RewardSet(reward)
    settings |= {"samples": 0, "batch": max(batch, jax.device_count())}
    how = environment or Dialogue()
    answers = generate_answers(model, tokenizer, rows, how, **settings)
    greedy = [answer for answer, _ in answers]
    questions = [row.get("question") for row in rows]
    texts = [answer.text for answer in greedy]
    given = row_columns(rows) | {"completion_ids": [answer.ids for answer in greedy]}
    given |= environments_of(texts)
    scores = reward.scores(questions, texts, given)
    columns = {
        "question": questions,
        "completion": texts,
        "reward": reward.total(scores),
        **scores,
        "tokens": [answer.tokens for answer in greedy],
        "ended": [answer.ended for answer in greedy],
    }
    cells = zip(*columns.values(), strict=True)
    table = [dict(zip(columns, row, strict=True)) for row in cells]
    parts = {name: math.fsum(x) / len(x) for name, x in scores.items()}
    return Scores(table, parts)


def load_or_score(path, model, tokenizer, rows, reward, **settings) -> Scores:
    """Reads a `score` from a file if model, rows, reward and settings are the same.

    Args:
      path: as for `load_or_run`. The others are those of `score`.
    """
    environment = settings.get("environment")
    about = {
        "model": run_identity.describe(model),
        "tokenizer": run_identity.describe(tokenizer),
        "rows": run_identity.describe_rows(rows),
        "reward": run_identity.describe(reward),
        "settings": settings
        | {"environment": environment.describe() if environment else None},
    }

    run = functools.partial(score, model, tokenizer, rows, reward, **settings)
    return load_or_run(path, about, run, Scores)


def with_wording(rows, wording: str) -> list[dict]:
    """The rows with their questions put into a wording, where it says `{question}`.

    Raises:
      ValueError: it does not say so.
    """
    if "{question}" not in wording:
        raise ValueError(f"The wording {wording!r} must hold {{question}}.")
    return [row | {"question": _worded(row["question"], wording)} for row in rows]


def _worded(question, wording):
    """A question in a wording; of messages, the last one."""
    if isinstance(question, str):
        return wording.replace("{question}", question)
    *before, last = question
    return [*before, last | {"content": _worded(last["content"], wording)}]
