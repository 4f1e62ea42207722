"""Rewards: text in, one number per completion out. Nothing here knows of models.

A reward function is `(prompts, completions, **columns) -> list[float]`, the signature
that TRL and Tunix use, so these run there and theirs run here. A completion is a string
or a list of {"role", "content"} messages; columns are the other fields of the rows,
such as `answer`, one entry per completion.
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from helpers.rewards.answers import (
    MARK,
    annotations,
    ends_in_answer_line,
    extract_lenient,
    extract_strict,
)
from helpers.tools.tool import Trace

LARGEST = (2 - 2**-23) * 2.0**127  # of float32, which rewards are trained on as


class Reward(Protocol):
    """A reward function; those below are of this kind, and so are TRL's and Tunix's."""

    def __call__(
        self, prompts: Sequence, completions: Sequence, /, *_: Any, **columns: Any
    ) -> Sequence[float]:
        """One number per completion; columns are further fields of the rows."""


R = TypeVar("R", bound=Reward)


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
    return _matches(extract_strict, completions, answer)


def correct_lenient(prompts, completions, answer, **_):
    """As `correct`, but without a `####` line the last number of the text counts."""
    return _matches(extract_lenient, completions, answer)


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

    Raises:
      ValueError: soft is below 0 or above the limit: it would cost to say nothing.
    """
    if not 0 <= soft <= limit:
        raise ValueError(f"soft is {soft}: choose 0 up to the limit, which is {limit}.")

    def length_penalty(prompts, completions, **_):
        over = [count(completion_text(c)) - (limit - soft) for c in completions]
        return [-float(min(max(n / max(soft, 1), 0), 1)) for n in over]

    return length_penalty


class RewardSet:
    """A weighted sum of reward functions, each logged under its own name.

    Args:
      rewards: {function: weight}, or [(function, weight), ...], or one function.

    Raises:
      ValueError: no function, one without a weight, two functions of the same name, or
        a weight that is not a finite number.
    """

    def __init__(self, rewards: R | Mapping[R, float] | Sequence[tuple[R, float]]):
        pairs: Sequence[tuple[Reward, float]]
        if callable(rewards):
            pairs = [(rewards, 1.0)]
        else:
            pairs = list(rewards.items() if isinstance(rewards, Mapping) else rewards)
        if not pairs or not all(map(_is_weighted, pairs)):
            raise ValueError(
                "a RewardSet takes one reward function, or {function: weight} with at "
                f"least one, or a list of such pairs, not {_short(rewards)}. Weights "
                "are finite numbers."
            )
        self.rewards = [(_name(function), function, w) for function, w in pairs]
        names = [name for name, _, _ in self.rewards]
        if len(set(names)) < len(names):
            raise ValueError(
                f"two rewards have the same name: {', '.join(names)}. They are logged "
                "by name: give one of the functions another __name__."
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
          RewardError: see `scores` and `total`.
        """
        scores = self.scores(prompts, completions, columns)
        count = max(len(completions), 1)
        means = {name: math.fsum(column) / count for name, column in scores.items()}
        return self.total(scores), means

    def scores(self, prompts, completions, columns) -> dict[str, list[float]]:
        """What each function gives, before its weight, as {"reward/<name>": floats}.

        Raises:
          RewardError: a function raised, or did not return one finite number per
            completion, or a column has another length.
        """
        for name, column in {"prompts": prompts, **columns}.items():
            if len(column) != len(completions):
                raise RewardError(
                    f"{name} has {len(column)} entries for {len(completions)} "
                    "completions: repeat each row of the prompts once per answer."
                )
        return {
            f"reward/{name}": _scores(name, function, prompts, completions, columns)
            for name, function, _ in self.rewards
        }

    def total(self, scores) -> list[float]:
        """The weighted sum of `scores` for each completion, in float64.

        Raises:
          RewardError: a sum is too large for float32, in which rewards are trained on.
        """
        weights = [weight for _, _, weight in self.rewards]
        pairs = zip(weights, scores.values(), strict=True)
        weighted = [weight * np.asarray(column, float) for weight, column in pairs]
        total_N = np.asarray(sum(weighted))
        if not (np.abs(total_N) <= LARGEST).all():
            raise RewardError(
                f"the rewards times their weights {weights} are beyond float32: "
                f"{_short(total_N.tolist())}. Choose smaller weights."
            )
        return total_N.tolist()


def row_columns(rows) -> dict[str, list]:
    """The columns that a reward is given: all that every row has but its question.

    Raises:
      ValueError: a column has the name of another argument of a reward.
    """
    names = [name for name in rows[0] if all(name in row for row in rows)]
    if taken := {"self", "prompts", "completions"}.intersection(names):
        raise ValueError(
            f"The rows have a column {min(taken)!r}, which is an argument of every "
            "reward function: give it another name."
        )
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
    return completion.answer if is_trace else completion_text(completion)


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


def _matches(extract, completions, answers):
    pairs = zip(completions, answers, strict=True)
    return [float(extract(answer_text(c)) == gold_number(a)) for c, a in pairs]


def _scores(name, function, prompts, completions, columns):
    """One finite float per completion, or a RewardError that says what went wrong."""
    try:
        result = _call(function, prompts, completions, columns)
    except Exception as error:
        row, reason = _first_failure(function, prompts, completions, columns)
        what = f"raised {type(reason or error).__name__}: {reason or error}"
        raise _failure(name, what, row, completions) from error
    try:
        scores_N = np.asarray(result, float)
    except (TypeError, ValueError, OverflowError):  # a dict, None, a list of texts
        scores_N = np.array(math.nan)
    if scores_N.shape != (len(completions),):
        got = f"{len(scores_N)} scores" if scores_N.ndim == 1 else _short(result)
        what = f"returned {got} for {len(completions)} completions"
        raise _failure(name, what, None, completions)
    for row in np.flatnonzero(~(np.abs(scores_N) <= LARGEST)):
        raise _failure(name, f"returned {scores_N[row]}", row, completions)
    return scores_N.tolist()


def _call(function, prompts, completions, columns):
    """Calls a reward function with copies, which it may sort or change."""
    prompts, completions, columns = map(_copied, (prompts, completions, columns))
    return function(prompts, completions, **columns)


def _copied(value):
    """Lists and dicts copied at every depth; arrays and Traces, which are large, not.

    A reward that tidies messages in place would otherwise change what the others see.
    """
    if type(value) is list:
        return [_copied(each) for each in value]
    if type(value) is dict:
        return {name: _copied(each) for name, each in value.items()}
    return value


def _first_failure(function, prompts, completions, columns):
    """Calls the function row by row to find the one that it cannot take."""
    for row in range(len(completions)):
        one = slice(row, row + 1)
        part = {name: column[one] for name, column in columns.items()}
        try:
            _call(function, prompts[one], completions[one], part)
        except Exception as error:
            return row, error
    return None, None


def _failure(name, what, row, completions):
    if row is not None:
        what = f"{what} for row {row}, completion {_short(completions[row])}"
    return RewardError(
        f"reward {name!r} {what}. A reward gives every text one number that is finite "
        "in float32, empty and absurd ones too: return 0.0 for what it cannot read, "
        "and take **columns for the fields it does not use."
    )


def _is_weighted(pair):
    """Whether something is a function and its weight."""
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and callable(pair[0])):
        return False
    is_number = isinstance(pair[1], numbers.Real)
    return is_number and -LARGEST <= pair[1] <= LARGEST


def _name(function):
    inner = getattr(function, "func", function)  # of a functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


def _short(value, width=160):
    text = repr(value)
    return text if len(text) <= width else f"{text[:width]}…"
