"""Answers that learners write, wrong and right ones, a file for a few notebooks.

WRONG and RIGHT are {exercise: {what is special: the answer}}; an answer is what the
check is called with, a tuple where it takes several arguments. Every answer of WRONG
must be refused and every one of RIGHT accepted (tests/exercises/test_answers.py).
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
WRONG = {name: answers for part in PARTS for name, answers in part.WRONG.items()}
RIGHT = {name: answers for part in PARTS for name, answers in part.RIGHT.items()}
