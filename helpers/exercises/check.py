"""Self-checks of the exercises: one small file per notebook.

An exercise's check is a function `check_<name>(answer) -> Check`. It lists, in order,
the properties that a right answer has, and `judge` prints the first one that fails. It
never raises, whatever the learner wrote, and never shows the right answer.

    def check_advantages(answer):
        rewards = np.array([[1.0, 0.0, 1.0, 0.0]])
        return judge(
            ("give one advantage per answer", lambda: answer(rewards).shape == (1, 4)),
            ("centre each group at 0", lambda: np.allclose(answer(rewards).sum(), 0)),
        )
"""

import copy
import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Check:
    """The verdict on one exercise.

    Attributes:
      passed: whether every property holds.
      message: what was printed: the first property that fails, or that all hold.
    """

    passed: bool
    message: str

    def _ipython_display_(self) -> None:
        """Show nothing: the message was printed already."""


def judge(*properties: tuple[str, Callable[[], object]]) -> Check:
    """Try the properties in order, print the first one that fails.

    Args:
      properties: pairs of a phrase that completes "your answer should …", and a
        function without arguments that is true where it holds.
    """
    for phrase, holds in properties:
        try:
            complaint = None if bool(holds()) else f"Not yet: it should {phrase}."
        except NotImplementedError as unwritten:
            todo = str(unwritten) or "replace the stub above"
            complaint = f"Not written yet: {todo} and run both cells."
        except (Exception, SystemExit) as error:  # the learner's code may raise any
            complaint = (
                f"Not yet: it should {phrase}, but it raised "
                f"{type(error).__name__}: {error}"
            )
        if complaint:
            return _say(Check(False, complaint))
    return _say(Check(True, f"Passed: all {len(properties)} properties hold."))


def filled(*answers, what: str) -> Callable[[], bool]:
    """A property for `judge` that an untouched None fails, as not written yet.

    Args:
      answers: what the learner was to put in place of None.
      what: what belongs there, such as "a probability".
    """

    def holds():
        if any(answer is None for answer in answers):
            raise NotImplementedError(f"put {what} in place of None")
        return True

    return holds


def whole(*answers) -> bool:
    """Whether all are whole numbers; True and False are none."""
    return all(not isinstance(a, bool | np.bool_) and a == int(a) for a in answers)


def zeros_and_ones(mask) -> list[int]:
    """A mask as a list of ints; booleans and arrays do as well.

    Raises:
      ValueError: an entry is neither 0 nor 1.
    """
    entries = [float(entry) for entry in mask]
    if not set(entries) <= {0.0, 1.0}:
        raise ValueError("a mask holds only zeros and ones")
    return [int(entry) for entry in entries]


def leaves_alone(function, *given) -> bool:
    """Whether a call leaves its arguments as they are: arrays, lists, dicts."""
    handed = copy.deepcopy(given)
    function(*handed)
    return all(map(_same, handed, given))


def _same(one, other):
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return one == other


def _say(check: Check) -> Check:
    print(check.message)
    return check
