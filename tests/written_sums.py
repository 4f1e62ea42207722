"""Sums as text, each with its value by Python's own operators, for hypothesis."""

import operator
from fractions import Fraction

from hypothesis import strategies as st

PYTHONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
PYTHONS |= {"/": operator.truediv, "//": operator.floordiv}


def joined(left, sign, right):
    """An expression and its value by Python's own operators; None where it has none."""
    (left_text, a), (right_text, b) = left, right
    undefined = a is None or b is None or (sign.startswith("/") and b == 0)
    value = None if undefined else Fraction(PYTHONS[sign](a, b))
    return f"({left_text}{sign}{right_text})", value


numbers = st.integers(0, 99).map(lambda n: (str(n), Fraction(n)))
expressions = st.recursive(
    numbers,
    lambda inner: st.builds(joined, inner, st.sampled_from(list(PYTHONS)), inner),
    max_leaves=6,
)
