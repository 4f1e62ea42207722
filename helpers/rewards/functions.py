"""Rewards: text in, one number per completion out. Nothing here knows of models.

A reward function is `(prompts, completions, **columns) -> list[float]`, the signature
that TRL and Tunix use, so these run there and theirs run here. It is called by keyword
and gets what it names: prompts, completions, completion_ids (the tokens that the model
sampled), and each column of the rows, such as `answer`, with one entry per completion
and None where a row has none. A completion is a string or a list of {"role", "content"}
messages.
"""

import asyncio
import contextlib
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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

# What a function that reads completions[0][0]["content"] raises for a text or a trace.
NOT_MESSAGES = re.compile("indices must be|'str' object has no|'Trace' object is not")
READS_MESSAGES = re.compile(r"""\[-?\d\](\[|\.get\()["']content["']""")
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


def environment_reward(prompts, completions, **_):
    """What the environment gave: the sum over the steps of each `tool.Trace`."""
    return [trace.reward for trace in completions]


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
      rewards: {function: weight}, or [(function, weight), ...]; or functions without
        weights as TRL takes them, [function, ...] or one, each of which counts 1.

    Raises:
      ValueError: no function, or two functions of the same name.
    """

    def __init__(self, rewards: Reward | Mapping[Any, float] | Sequence[Any]):
        if isinstance(rewards, Mapping):
            rewards = list(rewards.items())
        listed = [rewards] if callable(rewards) else rewards
        pairs = [(each, 1.0) if callable(each) else each for each in listed]
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
          columns: `completion_ids` and the fields of the rows, one entry per
            completion.

        Returns:
          The weighted sums, one float per completion; and {"reward/<name>": mean of
          that function, before its weight}.

        Raises:
          RewardError: see `scores`.
        """
        scores = self.scores(prompts, completions, columns)
        return self.total(scores), self.means(scores)

    def scores(self, prompts, completions, columns) -> dict[str, list[float]]:
        """What each function gives, before its weight, as {"reward/<name>": floats}.

        None says that a function does not judge this kind of row. It counts as 0.0,
        where another function judges it.

        Raises:
          RewardError: a function raised, or did not return one finite number per
            completion; or none of them judges a row.
        """
        given = {**columns, "prompts": prompts, "completions": completions}
        scores = [_scores(name, function, given) for name, function, _ in self.rewards]
        for row in np.flatnonzero(np.isnan(scores).all(axis=0)):
            raise _failure(self.rewards[0][0], "returned None", row, completions)
        names = [f"reward/{name}" for name, _, _ in self.rewards]
        return dict(zip(names, np.nan_to_num(scores).tolist(), strict=True))

    def total(self, scores) -> list[float]:
        """The weighted sum of `scores` for each completion, in float64."""
        pairs = zip(self.rewards, scores.values(), strict=True)
        weighted = [w * np.asarray(column, float) for (_, _, w), column in pairs]
        return np.asarray(sum(weighted)).tolist()

    def means(self, scores) -> dict[str, float]:
        """The mean of each function's scores, 0 of none."""
        return {name: math.fsum(x) / max(len(x), 1) for name, x in scores.items()}


# What every reward is given besides: no names for columns.
GIVEN = ("self", "prompts", "completions", "completion_ids")


def row_columns(rows) -> dict[str, list]:
    """The columns that a reward is given; None where a row does not have one."""
    names = dict.fromkeys(name for row in rows for name in row if name not in GIVEN)
    return {name: [row.get(name) for row in rows] for name in names}


def environments_of(completions) -> dict[str, list]:
    """The column `environments` that a reward is given; none where answers are texts.

    Args:
      completions: strings, or `tool.Trace` of which each has an environment.
    """
    if not completions or not isinstance(completions[0], Trace):
        return {}
    return {"environments": [trace.environment for trace in completions]}


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
    r"""The number of a gold answer: of its `#### 24` or `\boxed{24}`, or all it is.

    Raises:
      ValueError: there is none.
    """
    text = str(answer).strip()
    # Of several lines without a mark the first would do as the number alone.
    alone = None if "\n" in text else extract_strict(f"{MARK} {text}")
    value = extract_strict(text) if MARK in text or r"\boxed" in text else alone
    if value is None:
        raise ValueError(
            f"the gold answer {_short(text)} has no number. It should end in a line "
            f"like '{MARK} 24', or be the number alone."
        )
    return value


def _scores(name, function, given):
    """A finite float per completion, NaN for None; or a RewardError says why not."""
    completions = given["completions"]
    # TRL's are messages in a chat: rewards read completions[0][0]["content"].
    roles = (("prompts", "user"), ("completions", "assistant"))
    chat = given | {key: _as_messages(given[key], role) for key, role in roles}

    def call(rows, given=given):
        # Lists of its own, which a function may sort or change.
        mine = {key: list(column[rows]) for key, column in given.items()}
        try:
            values = call_by_name(function, mine)
        except (TypeError, AttributeError) as error:
            if given is chat or not NOT_MESSAGES.search(str(error)):
                raise
            return call(rows, chat)
        scores = np.asarray(values, float)
        if given is not chat and len(np.unique(scores)) == 1 and _reads_chat(function):
            with contextlib.suppress(Exception):  # it may have caught that of a text
                return call(rows, chat)
        return values, scores

    try:
        values, scores_N = call(slice(None))
    except Exception as error:
        row = _first_failing_row(call, len(completions))
        what = f"raised {type(error).__name__}: {error}, given {', '.join(given)},"
        raise _failure(name, what, row, completions) from error
    if scores_N.shape != (len(completions),):
        got = f"{len(scores_N)} scores" if scores_N.ndim == 1 else repr(scores_N)
        what = f"returned {got} for {len(completions)} completions"
        raise _failure(name, what, None, completions)
    judged = [value is not None for value in values]
    for row in np.flatnonzero(~(np.abs(scores_N) <= LARGEST) & judged):
        raise _failure(name, f"returned {scores_N[row]}", row, completions)
    return scores_N


def call_by_name(function, given):
    """Calls a reward with what it takes of {name: values}; waits for an async one.

    By keyword, as TRL and Tunix do, so the order of its parameters does not matter.
    """
    inner = inspect.signature(function).parameters
    outer = inspect.signature(function, follow_wrapped=False).parameters
    takes_all = any(x.kind == x.VAR_KEYWORD for x in inner.values())
    first = [name for name, x in inner.items() if x.kind == x.POSITIONAL_ONLY]
    # A name of its own stands for what is in its place: (questions, texts, /).
    ours = dict(zip(first, ("prompts", "completions"), strict=False))
    names = [name if name in given else ours.get(name) for name in first]
    takes = {*inner, *outer, *(given if takes_all else ())} - {*names}
    keywords = {name: values for name, values in given.items() if name in takes}
    result = function(*(given[name] for name in names if name), **keywords)
    if not inspect.iscoroutine(result):
        return result
    # On a thread, because a notebook runs an event loop of its own on this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, result).result()


def _reads_chat(function):
    """Whether a function's source reads completions[0][0]["content"]."""
    with contextlib.suppress(OSError, TypeError):  # it may have none
        return bool(READS_MESSAGES.search(inspect.getsource(function)))
    return False


def _as_messages(texts, role):
    """Texts and traces as lists of messages, which may be among them."""
    lists = [getattr(text, "chat", text) for text in texts]
    return [[{"role": role, "content": x}] if isinstance(x, str) else x for x in lists]


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
        "in float32, empty and absurd ones too: return 0.0 for what it cannot read. "
        "It is called by keyword and takes what it names."
    )


def _name(function):
    inner = getattr(function, "func", function)  # of a functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


def _short(value, width=160):
    text = repr(value)
    return text if len(text) <= width else f"{text[:width]}…"
