"""Refuses a setting by its name, before anything is computed with it."""

import math
import numbers


def require(name: str, value, above=-math.inf, least=-math.inf, most=math.inf):
    """Refuses what is no number in the range.

    Args:
      name: what the caller calls it.
      value: a number.
      above: it is greater than this.
      least: it is at least this.
      most: it is at most this.
    Raises:
      ValueError: it is not.
    """
    if isinstance(value, numbers.Real) and value > above and least <= value <= most:
        return
    ends = ("above", above), ("at least", least), ("at most", most)
    said = " and ".join(f"{word} {end}" for word, end in ends if math.isfinite(end))
    raise ValueError(f"{name}={value!r}: pass a number {said}.")


def require_count(name: str, value, least: int = 1):
    """Refuses what is no whole number from `least`; arguments as `require`'s.

    Raises:
      ValueError: it is none.
    """
    if not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r}: pass a whole number from {least}.")
