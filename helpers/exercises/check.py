"""What the self-checks of the exercises share.

The check of an exercise is a function `check_<name>(answer) -> Check`. It names, in
order, the properties that a right answer has, and prints the first one that fails. Most
properties are cases in which the answer must agree with a short reference; the last one
has random cases. A check never raises, whatever the learner wrote, and never shows the
right answer.

    def check_advantages(answer):
        rng = np.random.default_rng(0)
        properties = {
            "keep the shape": lambda: answer(np.ones((3, 4))).shape == (3, 4),
            "give a tied group only zeros": [(np.ones((1, 4)),)],
            "be right for any rewards": [(rng.normal(size=(3, 4)),) for _ in range(5)],
        }
        return check_properties(properties, answer, centred)
"""

import copy
import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Iterable

import numpy as np

TEXTS = pathlib.Path(__file__).with_name("texts.toml")


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


def texts(name: str) -> dict:
    """A table of texts.toml: {what a right answer does: the texts it does it with}."""
    return tomllib.loads(TEXTS.read_text("utf-8"))[name]


def check_properties(
    properties: dict[str, Callable[[], object] | list[tuple]],
    answer: Callable | None = None,
    reference: Callable | None = None,
    tolerance: float = 0,
) -> Check:
    """Tries the properties in order, and prints the first one that fails.

    Args:
      properties: by a phrase that completes "your answer should …": a function without
        arguments that is true where the property holds, or a list of cases in which
        `answer` must agree with `reference`.
      answer, reference, tolerance: see `agrees`.
    """
    message = f"Passed: all {len(properties)} properties hold."
    for phrase, holds in properties.items():
        complaint = f"Not yet: it should {phrase}"
        try:
            if callable(holds):
                passed = bool(holds())
            else:
                passed = agrees(answer, reference, holds, tolerance)
            if passed:
                continue
            message = f"{complaint}."
        except NotImplementedError as unwritten:
            todo = str(unwritten) or "replace the stub above"
            message = f"Not written yet: {todo} and run both cells."
        except (Exception, SystemExit) as error:  # the learner's code may raise any
            message = f"{complaint}, but it raised {type(error).__name__}: {error}"
        print(message)
        return Check(False, message)
    print(message)
    return Check(True, message)


def filled(answer, *, what: str) -> Callable[[], bool]:
    """A property that is not written yet where the answer is still None.

    Args:
      answer: what the learner was to put in place of None; a dict for its values.
      what: what belongs there, such as "a probability".
    """

    def holds():
        values = answer.values() if isinstance(answer, dict) else [answer]
        if any(value is None for value in values):
            raise NotImplementedError(f"put {what} in place of None")
        return True

    return holds


def agrees(
    answer: Callable, reference: Callable, cases: Iterable[tuple], tolerance: float = 0
) -> bool:
    """Whether two functions give the same result in every case.

    Args:
      answer: the learner's function. It is called with copies.
      reference: a plain version of the same.
      cases: arguments of each call.
      tolerance: relative, and a tenth of it absolute; 0 compares exactly.

    Raises:
      ValueError: the answer changed its arguments.
    """
    for case in cases:
        given = copy.deepcopy(case)
        result = answer(*given)
        if not same(given, case):
            raise ValueError("the function changes what it is called with")
        if not same(result, reference(*case), tolerance):
            return False
    return True


def same(one, other, tolerance: float = 0) -> bool:
    """Whether two results are equal: numbers, arrays, texts, or tuples of them."""
    if isinstance(other, tuple):
        parts = list(one)
        return len(parts) == len(other) and all(
            same(*pair, tolerance) for pair in zip(parts, other, strict=True)
        )
    if one is None or other is None or isinstance(other, str | dict):
        return one is other or bool(one == other)
    try:
        one, other = np.asarray(one), np.asarray(other)
    except ValueError:  # lists of different lengths
        return one == other
    if one.shape != other.shape:
        return False
    if tolerance and other.dtype.kind in "fiub":
        one = np.asarray(one, float)  # fractions, too
        return np.allclose(one, other, rtol=tolerance, atol=tolerance / 10)
    return bool((one == other).all())


def whole(*answers) -> bool:
    """Whether all are whole numbers; True and False are none."""
    return all(not isinstance(a, bool | np.bool_) and a == int(a) for a in answers)
