"""Self-checks of the exercises, a file per notebook."""

from helpers.exercises.check import Check, filled, judge

__all__ = [
    "Check",  # a verdict
    "filled",  # no stub is left
    "judge",  # the first property that fails
]
