"""Graded answers to a set of problems, and the figures they add up to."""

import dataclasses
from dataclasses import dataclass
from typing import Self

from helpers.evaluation.intervals import compare, pass_at_k, wilson


@dataclass(frozen=True)
class Report:
    """The answers of one model to a set of problems; its figures are fractions of 1.

    Attributes:
      answers: one dict per problem: question, gold (the right answer), level, text
        (the greedy answer), strict (whether it is right), tokens, ended (False: it ran
        out of budget), right (how many of the samples are).
      samples: sampled answers per problem.
    """

    answers: list
    samples: int

    @property
    def n(self):
        """How many problems."""
        return len(self.answers)

    @property
    def greedy(self):
        """The share of greedy answers that are right, read strictly."""
        return mean(self.column("strict"))

    @property
    def low(self):
        """Lower end of the 95% interval of `greedy`."""
        return wilson(sum(self.column("strict")), self.n)[0]

    @property
    def high(self):
        """Upper end of the 95% interval of `greedy`."""
        return wilson(sum(self.column("strict")), self.n)[1]

    @property
    def pass1(self):
        """The share of sampled answers that are right; None without samples."""
        return self.pass_at(1)

    @property
    def pass8(self):
        """How often one of eight samples is right; None with fewer."""
        return self.pass_at(8)

    def pass_at(self, k):
        """The mean of `pass_at_k` over the problems; None with fewer samples than k."""
        return self._pass_at(k, "right")

    def _pass_at(self, k, column):
        if k > self.samples:
            return None
        right = self.column(column)
        return mean([pass_at_k(self.samples, c, k) for c in right])

    @property
    def length(self):
        """Mean tokens of a greedy answer, its end-of-turn included."""
        return mean(self.column("tokens"))

    @property
    def truncated(self):
        """The share of greedy answers that ran out of budget."""
        return 1 - mean(self.column("ended"))

    def column(self, name):
        """One entry of every answer, as a list."""
        return [answer[name] for answer in self.answers]

    def by_level(self) -> dict[int, Self]:
        """{level: the report on its problems}, from the easiest on."""
        levels: dict[int, list] = {}
        for answer in self.answers:
            levels.setdefault(answer["level"], []).append(answer)
        return {v: dataclasses.replace(self, answers=levels[v]) for v in sorted(levels)}

    def since(self, before):
        """How these greedy answers compare with an earlier report's: a `Comparison`.

        Args:
          before: a Report on the same rows.

        Raises:
          ValueError: the rows are not the same, in questions and right answers.
        """
        if any(self.column(c) != before.column(c) for c in ("question", "gold")):
            raise ValueError(
                f"These are reports on different problems ({before.n} and {self.n}): "
                "evaluate both models on the same rows, in the same order."
            )
        return compare(before.column("strict"), self.column("strict"))

    def row(self, stage, *, params, seed, seconds):
        """This stage's row in the table of results (`helpers.course.results`).

        Args:
          stage: base, sft, grpo, gspo, student, ...
          params: how many parameters the model has.
          seed: of the training run.
          seconds: how long the stage took.

        Raises:
          ValueError: fewer than eight samples per problem, so no pass@8.
        """
        if self.samples < 8:
            raise ValueError(
                f"The table shows pass@8, but there are {self.samples} samples per "
                "problem: evaluate with samples=8."
            )
        return {
            "stage": stage,
            "params": params,
            "greedy": self.greedy,
            "pass1": self.pass1,
            "pass8": self.pass8,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "seed": seed,
            "seconds": seconds,
        }


@dataclass(frozen=True)
class MathsReport(Report):
    """A `Report` on answers that end in a number; `strict` is `answers.extract_strict`.

    Each answer also has lenient and right_lenient, the same by `extract_lenient`, and
    names_kept (None: it names nobody).
    """

    @property
    def lenient(self):
        """The same where the last number will do as the answer."""
        return mean(self.column("lenient"))

    def pass_at(self, k, *, lenient=False):
        """The mean of `pass_at_k` over the problems; None with fewer samples than k."""
        return self._pass_at(k, "right_lenient" if lenient else "right")

    @property
    def step_by_step(self):
        """The share of greedy answers that show a calculation, `<<48/2=24>>`."""
        return mean(["<<" in text for text in self.column("text")])

    @property
    def right_step_by_step(self):
        """The share of those that are right; None if there are none."""
        return mean([a["strict"] for a in self.answers if "<<" in a["text"]])

    @property
    def names_kept(self):
        """Of greedy answers that name people, the share that name the right ones."""
        return mean([kept for kept in self.column("names_kept") if kept is not None])

    def __str__(self):
        ks = [k for k in (1, 8) if k <= self.samples]
        sampled = "".join(f"pass@{k} {self.pass_at(k):.1%}, " for k in ks)
        return (
            f"greedy {self.greedy:.1%} (95%: {self.low:.1%} to {self.high:.1%}, "
            f"n = {self.n}), lenient {self.lenient:.1%}\n"
            f"{sampled}{self.length:.0f} tokens an answer, {self.truncated:.1%} "
            f"truncated, {self.step_by_step:.1%} step by step"
        )


def mean(values):
    """Of a list of numbers; None of an empty one."""
    return sum(values) / len(values) if values else None
