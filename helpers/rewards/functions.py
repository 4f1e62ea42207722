"""Rewards: text in, one number per completion out. Nothing here knows of models.

A reward function is `(prompts, completions, **columns) -> list[float]`, the signature
that TRL and Tunix use, so these run there and theirs run here. A completion is a string
or a list of {"role", "content"} messages; columns are the other fields of the rows,
such as `answer`, one entry per completion.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from helpers.rewards.answers import (
    MARK,
    annotations,
    ends_in_answer_line,
    extract_strict,
    without_thoughts,
)
from helpers.tools.tool import Trace

LARGEST = float(np.finfo(np.float32).max)  # rewards are trained on in float32

Reward = Callable[..., Sequence[float]]  # (prompts, completions, **columns) -> scores


class RewardError(ValueError):
    """A reward function failed; the message names it, the row and the completion."""


def correct(prompts, completions, answer, **_):
    """1.0 where the number after the last `####` equals the gold answer's, else 0.0.

    Args:
      prompts: not looked at.
      completions: strings or lists of messages.
      answer: gold answers, with a `#### 24` line or only the number.

    Returns:
      One float per completion.

    Raises:
      ValueError: a gold answer holds no number.
    """
    pairs = zip(completions, answer, strict=True)
    return [float(extract_strict(answer_text(c)) == gold_number(a)) for c, a in pairs]


def format_reward(prompts, completions, **_):
    """1.0 where there is exactly one `####`, on a last line that reads "#### 24"."""
    return [float(ends_in_answer_line(answer_text(c))) for c in completions]


def annotations_hold(prompts, completions, **_):
    """The share of the calculations `<<48/2=24>>` that hold; 0.0 where there are none.

    It asks whether sums are right, not whether they are any use: a policy that is paid
    for it alone finds out that `<<1=1>>` holds too.
    """
    checks = [annotations(completion_text(c)) for c in completions]
    return [sum(holds) / len(holds) if holds else 0.0 for holds in checks]


def length_penalty(limit, *, soft=0, count=len):
    """Makes a reward that is 0 for short answers and -1 for those beyond a limit.

    Args:
      limit: the greatest length; beyond it the penalty is -1.
      soft: how many units before the limit it begins, to grow in a line up to there.
      count: what measures a text: `len` counts characters; for tokens pass
        `lambda text: len(tokenizer.encode(text))`.

    Returns:
      A reward function. Source: DAPO, 2503.14476, eq. 13.
    """

    def length_penalty(prompts, completions, **_):
        over = [count(completion_text(c)) - (limit - soft) for c in completions]
        return [-float(min(max(n / max(soft, 1), 0), 1)) for n in over]

    return length_penalty


class RewardSet:
    """A weighted sum of reward functions, each logged under its own name.

    Args:
      rewards: {function: weight}, or [(function, weight), ...], or one function.

    Raises:
      ValueError: no function, or two functions of the same name.
    """

    def __init__(
        self, rewards: Reward | Mapping[Any, float] | Sequence[tuple[Reward, float]]
    ):
        if isinstance(rewards, Mapping):
            rewards = list(rewards.items())
        pairs = [(rewards, 1.0)] if callable(rewards) else rewards
        self.rewards = [(_name(function), function, w) for function, w in pairs]
        names = [name for name, _, _ in self.rewards]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"A RewardSet takes rewards of different names, not {names}: they are "
                "logged by name. Give one of the functions another __name__."
            )

    def __call__(self, prompts, completions, **columns):
        """Scores completions.

        Args:
          prompts, completions: one entry each per completion.
          columns: further fields of the rows, one entry per completion.

        Returns:
          The weighted sums, one float per completion; and {"reward/<name>": mean of
          that function, before its weight}.

        Raises:
          RewardError: see `scores`.
        """
        scores = self.scores(prompts, completions, columns)
        count = max(len(completions), 1)
        means = {name: math.fsum(column) / count for name, column in scores.items()}
        return self.total(scores), means

    def scores(self, prompts, completions, columns) -> dict[str, list[float]]:
        """What each function gives, before its weight, as {"reward/<name>": floats}.

        Raises:
          RewardError: a function raised, or did not return one finite number per
            completion.
        """
        return {
            f"reward/{name}": _scores(name, function, prompts, completions, columns)
            for name, function, _ in self.rewards
        }

    def total(self, scores) -> list[float]:
        """The weighted sum of `scores` for each completion, in float64."""
        pairs = zip(self.rewards, scores.values(), strict=True)
        weighted = [w * np.asarray(column, float) for (_, _, w), column in pairs]
        return np.asarray(sum(weighted)).tolist()


def row_columns(rows) -> dict[str, list]:
    """The columns that a reward is given: all that every row has but its question."""
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: [row[name] for row in rows] for name in names if name != "question"}


def completion_text(completion):
    """What the model itself wrote, of a string or of a list of chat messages.

    Args:
      completion: a string; or messages {"role", "content"}, or a `tool.Trace`, of
        which only those of the assistant count, joined by newlines: tool results are
        not the model's words.

    Returns:
      The text.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Trace):
        completion = completion.messages
    contents = [m.get("content") for m in completion if m.get("role") == "assistant"]
    turns = [[{"text": c}] if isinstance(c, str) else c or [] for c in contents]
    return "\n".join("".join(p.get("text") or "" for p in turn) for turn in turns)


def answer_text(completion):
    """Where its answer is looked for: as `completion_text`; of a Trace, its `answer`.

    Neither a thought, nor what stands before a call whose result nobody answered, is
    what the model hands in.
    """
    is_trace = isinstance(completion, Trace)
    text = completion.answer if is_trace else completion_text(completion)
    return without_thoughts(text)


def gold_number(answer):
    """The number of a gold answer: of its `#### 24` line, or all that it is.

    Raises:
      ValueError: there is none.
    """
    text = str(answer).strip()
    # Of several lines without a mark the first would do as the number alone.
    alone = None if "\n" in text else extract_strict(f"{MARK} {text}")
    value = extract_strict(text) if MARK in text else alone
    if value is None:
        raise ValueError(
            f"the gold answer {_short(text)} has no number. It should end in a line "
            f"like '{MARK} 24', or be the number alone."
        )
    return value


def _scores(name, function, prompts, completions, columns):
    """One finite float per completion, or a RewardError that says what went wrong."""

    def call(rows):
        # Lists of its own, which a function may sort or change.
        arguments = {key: list(column[rows]) for key, column in columns.items()}
        given = list(prompts[rows]), list(completions[rows])
        return np.asarray(function(*given, **arguments), float)

    everything = slice(None)
    try:
        scores_N = call(everything)
    except Exception as error:
        row = _first_failing_row(call, len(completions))
        what = f"raised {type(error).__name__}: {error}"
        raise _failure(name, what, row, completions) from error
    if scores_N.shape != (len(completions),):
        got = f"{len(scores_N)} scores" if scores_N.ndim == 1 else repr(scores_N)
        what = f"returned {got} for {len(completions)} completions"
        raise _failure(name, what, None, completions)
    for row in np.flatnonzero(~(np.abs(scores_N) <= LARGEST)):
        raise _failure(name, f"returned {scores_N[row]}", row, completions)
    return scores_N.tolist()


def _first_failing_row(call, count):
    """The first row for which a function raises alone; None if it never does."""
    for row in range(count):
        try:
            call(slice(row, row + 1))
        except Exception:
            return row
    return None


def _failure(name, what, row, completions):
    if row is not None:
        what = f"{what} for row {row}, completion {_short(completions[row])}"
    return RewardError(
        f"reward {name!r} {what}. A reward gives every text one number that is finite "
        "in float32, empty and absurd ones too: return 0.0 for what it cannot read, "
        "and take **columns for the fields it does not use."
    )


def _name(function):
    inner = getattr(function, "func", function)  # of a functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


def _short(value, width=160):
    text = repr(value)
    return text if len(text) <= width else f"{text[:width]}…"
