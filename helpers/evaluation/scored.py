"""Measuring a model by a reward of one's own: a mean score, with an interval.

`helpers.evaluation.evaluate` grades numbers after `####`, and this whatever a reward
function can grade.
"""

import copy
import dataclasses

import jax

from helpers.evaluation.held import hold
from helpers.evaluation.intervals import Comparison, compare, mean_interval
from helpers.evaluation.report import mean
from helpers.generation.dialogue import Dialogue, OneTurn
from helpers.rewards.functions import Reward, RewardSet
from helpers.rewards.on_rows import on_rows
from helpers.runtime import run_identity
from helpers.runtime.ranges import require_count


@dataclasses.dataclass(frozen=True)
class Scores:
    """The greedy answers of a model, and what a reward gave for each.

    Attributes:
      answers: one dict per row: question, completion, reward, "reward/<name>" of each
        reward function, tokens, ended (False: it ran out of budget).
      parts: the mean of each reward function, before its weight, by its name.
      judged: what the reward and the rows are, item by item (`describe_judged`).
    """

    answers: list[dict]
    parts: dict[str, float]
    judged: dict = dataclasses.field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.answers)

    @property
    def mean(self) -> float:
        """The mean reward."""
        return mean(self.column("reward"))

    @property
    def truncated(self) -> float:
        """The share of answers that ran out of budget."""
        return 1 - mean(self.column("ended"))

    def column(self, name: str) -> list:
        """One entry of every answer, as a list."""
        return [answer[name] for answer in self.answers]

    def interval(self, name: str) -> tuple[float, float]:
        """The 95% interval of the mean of a column of numbers: `mean_interval`."""
        return mean_interval(self.column(name))

    def since(self, before: "Scores") -> Comparison:
        """How these compare with the scores of another model on the same rows.

        Raises:
          ValueError: the rows are not the same, or the rewards; in all that they
            hold, gold answers and weights included.
        """
        if self.column("question") != before.column("question"):
            raise ValueError(
                f"These are scores on different rows ({before.n} and {self.n}): score "
                "both models on the same ones, in the same order."
            )
        if self.parts.keys() != before.parts.keys():
            raise ValueError(
                f"These are scores by different rewards ({', '.join(before.parts)} and "
                f"{', '.join(self.parts)}): score both models with the same ones."
            )
        if changed := run_identity.differences(before.judged, self.judged):
            raise ValueError(
                f"These are scores by different rewards or of different rows: "
                f"{run_identity.listed(changed)}. Score both models with the same ones."
            )
        return compare(before.column("reward"), self.column("reward"))

    def __str__(self):
        low, high = self.interval("reward")
        alike = len({*self.column("reward")}) == 1
        spread = "all" if alike else f"95%: {low:.3f} to {high:.3f},"
        parts = ", ".join(
            f"{name.removeprefix('reward/')} {value:.2f}"
            for name, value in self.parts.items()
        )
        return (
            f"mean reward {self.mean:.3f} ({spread} n = {self.n}{' alike' * alike}): "
            f"{parts}; {mean(self.column('tokens')):.0f} tokens an "
            f"answer, {self.truncated:.1%} truncated"
        )


def describe_judged(reward: RewardSet, rows) -> dict:
    """What must be the same for two scores to be compared, as text item by item."""
    return {"rows": run_identity.describe_rows(rows)} | _described(reward)


def _described(reward):
    return {
        f"reward {name!r}": run_identity.describe(function)
        | {"its weight": float(weight)}
        for name, function, weight in reward.rewards
    }


def _remembered(reward):
    """The same reward, and a dict that will hold the last scores of each function."""
    scores = {}

    def remember(name, function):
        def asked(*texts, **columns):
            scores[f"reward/{name}"] = given = function(*texts, **columns)
            return given

        asked.__name__ = name
        return asked

    asked = copy.copy(reward)  # of its own class, which may add up in another way
    asked.rewards = [(name, remember(name, f), w) for name, f, w in reward.rewards]
    return asked, scores


def _judged_alike(reward, rows, completions):
    """(totals, means, each function's scores) of a reward that stays what it is.

    One that counts its calls or remembers answers is described as another one by each
    score: none could be compared, and that would come out after the training between.
    """
    before = _described(reward)
    asked, each = _remembered(reward)
    totals, means = on_rows(asked, rows, completions)
    if (after := _described(reward)) != before:
        # What its first call sets up for good, such as a model that judges, may be
        # new; so it is asked once more, for texts that it has not seen.
        others = [
            row["question"] if isinstance(text, str) else text
            for row, text in zip(rows, completions, strict=True)
        ]
        on_rows(reward, rows, others)
        if changed := run_identity.differences(after, _described(reward)):
            raise ValueError(
                f"The reward changes as it is called: {run_identity.listed(changed)}. "
                "No two of its scores could be compared. Have functools.cache keep "
                "results that take long, and keep other state, such as counts, out of "
                "the reward: in a file."
            )
    return totals, means, {name: list(map(float, x)) for name, x in each.items()}


def score(
    model,
    tokenizer,
    rows,
    reward: Reward | RewardSet,
    *,
    max_tokens,
    tools: Dialogue | None = None,
    batch=64,
    buckets=(64, 128, 256, 512),
    log=True,
) -> Scores:
    """Answers every row greedily, and lets a reward judge the answers.

    Args:
      model: a Transformer.
      tokenizer: from `chat.load_tokenizer`.
      rows: with a "question"; all further columns go to the reward.
      reward: a `rewards.RewardSet`, or what makes one, such as a reward function.
      max_tokens: budget of an answer; with a `ToolUse`, of each of its turns.
      tools: a `tool_use.ToolUse` or a `calculator_use.CalculatorUse`; None: answers of
        one turn, without.
      batch: answers at a time; at least one for each device.
      buckets: allowed lengths of prompts; the longest prompt decides.
      log: print a line now and then when it takes long.
    Raises:
      ValueError: there are no rows, or the reward changes as it is called.
      PromptTooLong: a prompt does not fit into the largest bucket.
      helpers.rewards.RewardError: the reward failed on an answer.
    """
    reward = reward if isinstance(reward, RewardSet) else RewardSet(reward)
    require_count("batch", batch)
    held = hold(
        model,
        tokenizer,
        rows,
        tools or OneTurn(),
        max_tokens=max_tokens,
        samples=0,
        batch=max(batch, jax.device_count()),
        seed=0,
        temperature=1.0,
        buckets=buckets,
        log=log,
    )
    greedy = [answer for answer, _ in held]
    texts = [answer.text for answer in greedy]
    totals, parts, each = _judged_alike(reward, rows, texts)
    answers = [
        {
            "question": row["question"],
            "completion": answer.text,
            "reward": total,
            **{name: scores[i] for name, scores in each.items()},
            "tokens": answer.tokens,
            "ended": answer.ended,
        }
        for i, (row, answer, total) in enumerate(zip(rows, greedy, totals, strict=True))
    ]
    return Scores(answers, parts, describe_judged(reward, rows))
