"""Answers that learners write, wrong and right ones, a file for a few notebooks.

WRONG and RIGHT are {exercise: {what is special: the answer}}; an answer is what the
check is called with, a tuple where it takes several arguments. Every answer of WRONG
must be refused and every one of RIGHT accepted
(tests/exercises/test_exercises.py).
"""

from exercise_answers import (
    assistant,
    asynchronous,
    divergences,
    food,
    gradients,
    large,
    masks,
    measuring,
    own,
    preferences,
    products,
    served,
    start,
)

PARTS = (
    start,
    products,
    measuring,
    masks,
    gradients,
    preferences,
    divergences,
    food,
    assistant,
    large,
    asynchronous,
    own,
    served,
)


def _merged(name):
    """The answers of all parts to each exercise.

    Raises:
      ValueError: two are called alike.
    """
    found: dict[str, dict] = {}
    for part in PARTS:
        for exercise, answers in getattr(part, name).items():
            own = found.setdefault(exercise, {})
            if own.keys() & answers.keys():
                raise ValueError(f"{exercise}: twice {own.keys() & answers.keys()}")
            own |= answers
    return found


WRONG, RIGHT = _merged("WRONG"), _merged("RIGHT")
