"""What challenges share: a number to beat, a budget, a checker that believes nobody.

A challenge hands its attempt a fresh copy of the model that the notebook starts from,
and what the budget counts: rewards, or rows, that are counted as they are handed out
and refused beyond it. The attempt returns a model, and the checker measures that model
on held-out questions of its own, which no notebook uses.

What it does not see: labels or questions that an attempt has from elsewhere, for it
runs in the learner's own Python; and a shipped model that was trained on. A shipped
model as it is, or hardly moved, is refused, and so is an attempt that puts something
else in the place of a function or size of the course. Who digs deeper finds a way: read
the attempt.
"""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import jax
import numpy as np
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.exercises.check import Check, judge
from helpers.model import weights

HELD_OUT = 98  # seed of the checkers' own questions; the notebooks have others
COPIED = 0.1  # of the way from the start to a shipped model: nearer is a copy


class OverBudget(RuntimeError):
    """An attempt asked for more than its budget."""


class Meter:
    """Counts what an attempt spends, and refuses what is beyond the budget.

    Args:
      budget: the most that may be spent.
      what: of what, in words, such as "scored answers".
    """

    def __init__(self, budget: int, what: str):
        self._budget, self.what = budget, what
        self._spent, self._refused = 0, False

    @property
    def budget(self) -> int:
        """The most that may be spent."""
        return self._budget

    @property
    def spent(self) -> int:
        """How many were spent so far."""
        return self._spent

    @property
    def refused(self) -> bool:
        """Whether more was asked for than there is."""
        return self._refused

    def spend(self, count: int) -> None:
        """Counts so many.

        Raises:
          OverBudget: they are more than what is left; nothing is counted then, and the
            attempt has failed, whether it catches this or not.
          ValueError: not a whole number from 0 on.
        """
        if not isinstance(count, Integral) or count < 0:
            raise ValueError(
                f"{count!r} {self.what} cannot be taken: ask for a whole number, 0 or "
                "more."
            )
        if self.spent + count > self.budget:
            self._refused = True
            raise OverBudget(
                f"{count:,} more would make {self.spent + count:,} {self.what}, and "
                f"the budget is {self.budget:,}."
            )
        self._spent += count


class Rows:
    """Rows to learn from, handed out once and counted.

    Args:
      rows: all there are.
      meter: counts them.
    """

    def __init__(self, rows: Sequence[dict], meter: Meter):
        self._rows, self._meter = list(rows), meter

    def take(self, count: int) -> list[dict]:
        """The next rows, that many.

        Raises:
          OverBudget: there are not as many left in the budget.
        """
        first = self._meter.spent
        self._meter.spend(count)
        return [dict(row) for row in self._rows[first : first + count]]


@dataclasses.dataclass(frozen=True)
class Outcome(Check):
    """What became of an attempt.

    Attributes:
      reached: share of the held-out questions that its model answers rightly, or of the
        pairs that its reward orders rightly; None if it was refused before that.
      to_beat: what it had to be above.
      spent, budget: as the checker counted.
    """

    reached: float | None
    to_beat: float
    spent: int
    budget: int


def judged(
    train: Callable[[Any], Any],
    start: Callable[[], nnx.Module],
    score: Callable[[Any], float],
    meter: Meter,
    to_beat: float,
    copies: Sequence[str] = (),
) -> Outcome:
    """Trains, then looks at the budget, at what came back, and at what it answers.

    Args:
      train: the model that the notebook starts from -> the attempt's model.
      start: -> a fresh copy of that model.
      score: model -> share of the held-out questions answered as they should be.
      meter: what the attempt's budget is counted by.
      to_beat: the share that has to be exceeded.
      copies: stages of the walk whose shipped weights would be no attempt.
    """
    found: dict[str, Any] = {"reached": None}
    untouched = watched()

    def trained():
        found["model"] = train(start())
        return not meter.refused

    def beaten():
        found["reached"] = score(found["model"])
        print(
            f"{found['reached']:.1%} of the held-out questions, "
            f"{meter.spent:,} of {meter.budget:,} {meter.what}"
        )
        return found["reached"] > to_beat

    def own():
        return not any(_copied(found["model"], start(), name) for name in copies)

    verdict = judge(
        (f"stay within {meter.budget:,} {meter.what}", trained),
        (
            "leave the functions of the course as they are",
            untouched,
        ),
        (
            "return a model of the kind that it was given, with finite weights",
            lambda: _alike(found["model"], start()),
        ),
        ("train a model, and not return one that is there already", own),
        (f"get more than {to_beat:.0%} of the held-out questions right", beaten),
    )
    counted = (found["reached"], to_beat, meter.spent, meter.budget)
    return Outcome(verdict.passed, verdict.message, *counted)


def watched():
    """A function that tells whether all of the course is what it is now."""
    before = list(_course())
    return lambda: all(vars(owner)[name] is value for owner, name, value in before)


def _course():
    """(owner, name, value) of each function, class, method and size of the course."""
    for home in [name for name in sys.modules if name.partition(".")[0] == "helpers"]:
        for name, value in list(vars(sys.modules[home]).items()):
            if callable(value) or name.isupper():
                yield sys.modules[home], name, value
            if isinstance(value, type) and value.__module__ == home:
                for method, function in list(vars(value).items()):
                    if callable(function):
                        yield value, method, function


def _flat(model):
    """All weights of a model, by name, as one row of numbers."""
    return np.concatenate(
        [np.ravel(x) for x in jax.tree.leaves(nnx.state(model, nnx.Param))]
    )


def _alike(model, start) -> bool:
    """Whether a model is of the same class, of the same shapes, and finite."""
    if type(model) is not type(start) or model.config != start.config:
        return False
    shapes = [
        [x.shape for x in jax.tree.leaves(nnx.state(m, nnx.Param))]
        for m in (model, start)
    ]
    return shapes[0] == shapes[1] and bool(np.isfinite(_flat(model)).all())


def _copied(model, start, stage) -> bool:
    """Whether a model stands where that of a stage of the walk stands already."""
    there = weights.load(stage_folder(stage), vision=hasattr(start, "vision"))
    if not _alike(there, start):
        return False
    there, whole = _flat(there), _flat(start)
    return np.linalg.norm(_flat(model) - there) < COPIED * np.linalg.norm(whole - there)
