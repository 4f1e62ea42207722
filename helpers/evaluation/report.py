"""Graded answers, the figures they add up to, and a file that keeps them.

Every report is a list of dicts, one for each row, with properties that average them.
"""

import dataclasses
import json
import os
import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from helpers.evaluation.intervals import (
    Comparison,
    compare,
    mean_interval,
    pass_at_k,
    wilson,
)


@dataclass(frozen=True)
class _Answers:
    """What a `Report` and `Scores` share.

    Attributes:
      answers: one dict per row, with question, tokens, and ended (False: truncated).
    """

    answers: list[dict]

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.answers)

    @property
    def length(self) -> float:
        """Mean tokens of a greedy answer, its end-of-turn included."""
        return mean(self.column("tokens"))

    @property
    def truncated(self) -> float:
        """The share of greedy answers that ran out of budget."""
        return 1 - mean(self.column("ended"))

    def column(self, name: str) -> list:
        """One entry of every answer, as a list."""
        return [answer[name] for answer in self.answers]

    def share(self, name: str):
        """The mean of a column over the answers where it is not None; None if none."""
        return mean([value for value in self.column(name) if value is not None])


@dataclass(frozen=True)
class Report(_Answers):
    """The answers of one model to a set of problems; its figures are fractions of 1.

    Attributes:
      answers: also with gold (the right answer), level, text (the greedy answer),
        strict (whether it is right) and right (how many of the samples are).
      samples: sampled answers per problem.
    """

    samples: int

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
        if k > self.samples:
            return None
        return mean([pass_at_k(self.samples, c, k) for c in self.column("right")])

    def _sampled(self, form):
        ks = [k for k in (1, 8) if k <= self.samples]
        return "".join(form.format(f"pass@{k} {self.pass_at(k):.1%}") for k in ks)

    def since(self, before) -> Comparison:
        """Compares these greedy answers with those of an earlier report.

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
        """
        figures = ("greedy", "pass1", "pass8", "low", "high", "n")
        row = {"stage": stage, "params": params}
        row |= {name: getattr(self, name) for name in figures}
        return row | {"seed": seed, "seconds": seconds}


@dataclass(frozen=True)
class MathsReport(Report):
    """A `Report` on answers that end in a number; `strict` is `answers.extract_strict`.

    Each answer also has lenient, the same by `extract_lenient`, and names_kept (None:
    it names nobody).
    """

    @property
    def lenient(self):
        """The share that is right when the last number counts as the answer."""
        return mean(self.column("lenient"))

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
        return self.share("names_kept")

    def __str__(self):
        return (
            f"greedy {self.greedy:.1%} (95%: {self.low:.1%} to {self.high:.1%}, "
            f"n = {self.n}), lenient {self.lenient:.1%}\n"
            f"{self._sampled('{}, ')}{self.length:.0f} tokens an answer, "
            f"{self.truncated:.1%} truncated, {self.step_by_step:.1%} step by step"
        )


class FoodReport(Report):
    """A `Report` on conversations; its `strict` is `food_rewards.solved`.

    A truncated answer is not right: its number might have gone on. Each answer also has
    `trace` (the greedy conversation), `calls` (how many), and the scores of the greedy
    one: `valid` (well-formed calls), `food` and `grams` where there is food on the
    picture, `declined` where there is none; None elsewhere.
    """

    def __str__(self):
        parts = ("valid", "food", "grams", "declined")
        shares = {name: self.share(name) for name in parts}
        text = "".join(f", {k} {v:.1%}" for k, v in shares.items() if v is not None)
        between = f"({self.low:.1%} to {self.high:.1%}) of {self.n}"
        return f"right {self.greedy:.1%} {between}{self._sampled(', {}')}{text}"


@dataclass(frozen=True)
class Scores(_Answers):
    """The greedy answers of a model, and what a reward gave for each.

    Attributes:
      answers: also with completion, reward, and "reward/<name>" of each function.
      parts: the mean of each reward function, before its weight, by its name.
    """

    parts: dict[str, float]

    @property
    def mean(self) -> float:
        """The mean reward."""
        return mean(self.column("reward"))

    def interval(self, name: str) -> tuple[float, float]:
        """The 95% interval of the mean of a column of numbers: `mean_interval`."""
        return mean_interval(self.column(name))

    def since(self, before: "Scores") -> Comparison:
        """Compares these scores with those of another model by the same rewards.

        Raises:
          ValueError: the questions or the rewards' names are not the same.
        """
        questions = self.column("question") == before.column("question")
        if not questions or self.parts.keys() != before.parts.keys():
            raise ValueError(
                "These are scores by different rewards or of different rows: score "
                "both models with the same ones, in the same order."
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
            f"{parts}; {self.length:.0f} tokens an "
            f"answer, {self.truncated:.1%} truncated"
        )


def mean(values):
    """The mean of a list of numbers; None of an empty one."""
    return sum(values) / len(values) if values else None


R = TypeVar("R", Report, Scores)


def load_or_run(path, about: dict, run: Callable[[], R], kind: type[R]) -> R:
    """Reads a report from a file if it is about the same, else makes and saves it.

    A baseline costs minutes on a real model, and a session that was cut off would pay
    for it twice.

    Args:
      path: a JSON file, made with its folder; it is replaced in one step.
      about: what decides the report, texts by name, such as `run_identity.describe`
        gives of a model.
      run: makes it.
      kind: the dataclass that it makes, a kind of `Report` or `Scores`. One that was
        read has no traces; a trace that is a completion comes back as its text.
    Raises:
      OSError: the folder cannot be made.
    Warns:
      UserWarning: the file is damaged, or could not be written.
    """
    path = pathlib.Path(path)
    about = json.loads(json.dumps(about))
    names = [field.name for field in dataclasses.fields(kind)]
    try:
        saved = json.loads(path.read_text("utf-8"))
        if saved["about"] == about:
            print(f"measured before: {path}")
            return kind(**{name: saved[name] for name in names})
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"{path} is no report: {error!r}. It is run anew.", stacklevel=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    report = run()
    fields = {name: getattr(report, name) for name in names} | {"about": about}
    fields["answers"] = [
        {name: value for name, value in answer.items() if name != "trace"}
        for answer in report.answers
    ]
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(fields, default=_plain), "utf-8")
        os.replace(partial, path)
    except OSError as error:  # the report is in memory, and not lost
        partial.unlink(missing_ok=True)
        warnings.warn(
            f"{path} could not be written ({error}), so the next session will measure "
            "it again. Make room there, or set COURSE_BUILD to a folder elsewhere.",
            stacklevel=2,
        )
    return report


def _plain(value):
    """NumPy's and JAX's numbers and arrays as JSON can hold them; else the text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
