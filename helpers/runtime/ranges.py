"""Refuses a setting by its name, before anything is computed with it."""

import math
import numbers


class TextTooLong(ValueError):
    """A text, its answer included, is longer than those that a model was made for."""


def require(name: str, value, above=-math.inf, least=-math.inf, most=math.inf):
    """Refuses what is no number in the range.

    Args:
      name: what the caller calls it.
      value: a number, of Python or a scalar of NumPy or JAX.
      above: it is greater than this.
      least: it is at least this.
      most: it is at most this.
    Returns:
      The number, one of Python's.
    Raises:
      ValueError: it is not.
    """
    number = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(number, numbers.Real) and number > above and least <= number <= most:
        return number
    ends = ("above", above), ("at least", least), ("at most", most)
    text = " and ".join(f"{word} {end}" for word, end in ends if math.isfinite(end))
    raise ValueError(f"{name}={value!r}: pass a number {text}.")


def require_count(name: str, value, least: int = 1):
    """Refuses what is no whole number from `least`; arguments as `require`'s.

    Raises:
      ValueError: it is none.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name}={value!r}: pass a whole number from {least}.")


def require_positions(config, tokens: int, what: str):
    """Refuses texts that are longer than those that a model was made for.

    Args:
      config: of the model; one that has no `positions`, or 0, is held to none.
      tokens: of the longest text, what is answered included.
      what: that text, as the caller calls it.
    Raises:
      TextTooLong: it is too long.
    """
    positions = getattr(config, "positions", 0)
    if tokens > positions > 0:
        raise TextTooLong(
            f"{what}: {tokens} tokens, and this model was made for texts of {positions}"
            " (max_position_embeddings). Shorten prompts or examples, lower max_tokens "
            "or turns, or load a model for longer texts."
        )
