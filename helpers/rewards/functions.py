"""Rewards: text in, one number per completion out. Nothing here knows of models.

A reward function is `(prompts, completions, **columns) -> list[float]`, the signature
that TRL and Tunix use, so these run there and theirs run here. A completion is a string
or a list of {"role", "content"} messages; columns are the other fields of the rows,
such as `answer`, one entry per completion. Each function of a RewardSet is called with
lists of its own: what it sorts or strips in them, no other one sees.
"""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

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
        a weight that is not a number.
    """

    def __init__(self, rewards: R | Mapping[R, float] | Sequence[tuple[R, float]]):
        pairs: Sequence[tuple[Reward, float]]
        if callable(rewards):
            pairs = [(rewards, 1.0)]
        else:
            pairs = list(rewards.items() if isinstance(rewards, Mapping) else rewards)
        if not pairs or not all(map(_is_pair, pairs)):
            raise ValueError(
                "a RewardSet takes one reward function, or {function: weight} with at "
                f"least one, or a list of such pairs, not {_short(rewards)}."
            )
        self.rewards = [(_name(function), function, w) for function, w in pairs]
        names = [name for name, _, _ in self.rewards]
        if len(set(names)) < len(names):
            raise ValueError(
                f"two rewards have the same name: {', '.join(names)}. They are logged "
                "by name: give one of the functions another __name__."
            )
        for name, _, weight in self.rewards:
            if not _is_finite(weight, math.inf):
                raise ValueError(f"the weight of reward {name!r} is {weight!r}.")

    def __call__(self, prompts, completions, **columns):
        """Scores completions.

        Args:
          prompts, completions: one entry each per completion.
          columns: further fields of the rows, one entry per completion.

        Returns:
          The weighted sums, one float per completion; and {"reward/<name>": mean of
          that function, before its weight}.

        Raises:
          RewardError: a function raised, or did not return one finite number per
            completion, or a column has another length, or a sum is beyond float32.
        """
        rows = len(completions)
        for name, column in {"prompts": prompts, **columns}.items():
            if len(column) != rows:
                raise RewardError(
                    f"{name} has {len(column)} entries for {rows} completions: repeat "
                    "each row of the prompts once per answer."
                )
        totals, means = [0.0] * rows, {}
        for name, function, weight in self.rewards:
            scores = _scores(name, function, prompts, completions, columns)
            totals = [t + weight * s for t, s in zip(totals, scores, strict=True)]
            for row, total in enumerate(totals):
                if not abs(total) <= LARGEST:
                    what = f"times its weight {weight} brings the sum to {total}"
                    raise _failure(name, what, row, completions)
            means[f"reward/{name}"] = math.fsum(scores) / max(rows, 1)
        return totals, means


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
    own = [m.get("content") for m in completion if m.get("role") == "assistant"]
    parts = [[{"text": c}] if isinstance(c, str) else c or [] for c in own]
    return "\n".join("".join(p.get("text") or "" for p in part) for part in parts)


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
        scores = _ask(function, prompts, completions, columns)
    except Exception as error:
        row, reason = _first_failure(function, prompts, completions, columns)
        what = f"raised {type(reason or error).__name__}: {reason or error}"
        raise _failure(name, what, row, completions) from error
    # Of a dict the keys would be the scores, of bytes the letters.
    unfit = (Mapping, Set, str, bytes, bytearray)
    listed = hasattr(scores, "__len__") and not isinstance(scores, unfit)
    count = len(scores) if listed else None
    if count != len(completions):
        got = repr(scores) if count is None else f"{count} scores"
        what = f"returned {got} for {len(completions)} completions"
        raise _failure(name, what, None, completions)
    for row, score in enumerate(scores):
        if not _is_finite(score):
            raise _failure(name, f"returned {score!r}", row, completions)
    return [float(score) for score in scores]


def _ask(function, prompts, completions, columns):
    """Calls a reward function with what it may change."""
    return function(_own(prompts), _own(completions), **_own(columns))


def _own(thing):
    """Copies lists and dicts, whatever they stand in; arrays may be large, and stay.

    So do Traces: copied for each function they would cost as much as scoring them.
    """
    if type(thing) in (list, tuple):
        return type(thing)(map(_own, thing))
    if type(thing) is dict:
        return {name: _own(value) for name, value in thing.items()}
    return thing


def _first_failure(function, prompts, completions, columns):
    """Calls the function row by row to find the one that it cannot take."""
    for row in range(len(completions)):
        one = slice(row, row + 1)
        part = {name: column[one] for name, column in columns.items()}
        try:
            _ask(function, prompts[one], completions[one], part)
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


def _is_finite(score, largest=LARGEST):
    if isinstance(score, (str, bytes)):
        return False
    try:
        return math.isfinite(score) and abs(float(score)) <= largest
    except (TypeError, ValueError, OverflowError):
        return False


def _is_pair(pair):
    return isinstance(pair, tuple | list) and len(pair) == 2 and callable(pair[0])


def _name(function):
    inner = getattr(function, "func", function)  # of a functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


def _short(value, width=160):
    text = repr(value)
    return text if len(text) <= width else f"{text[:width]}…"
