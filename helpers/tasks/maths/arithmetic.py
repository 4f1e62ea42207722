"""The arithmetic of the word problems: worked steps, and the drills that teach them.

Every operation a problem uses is one that `drill` can show, so a model that has seen
enough drills has met every fact it will need. The tables are small on purpose:

  +   up to 60+40, in either order        -   their inverses, 100-40=60
  *   up to 14*9, in either order         /   their inverses, 126/9=14
"""

from dataclasses import dataclass

SMALLEST = 2  # no 0 and no 1: they teach little, and "1 apples" is not English
LARGEST_TERMS = (60, 40)
LARGEST_FACTORS = (14, 9)


class Redraw(Exception):
    """The numbers drawn lead outside the drilled tables: draw others."""


@dataclass(frozen=True)
class Step:
    """One operation and its value; prints in GSM8K's form, `<<6*5=30>>30`."""

    left: int
    operator: str
    right: int
    value: int

    def __str__(self):
        return f"<<{self.left}{self.operator}{self.right}={self.value}>>{self.value}"


def _step(left, operator, right, value, drilled, largest):
    """A `Step`, if the two numbers that stand in the tables for it are drilled."""
    small, large = sorted(drilled)
    if not (SMALLEST <= small <= min(largest) and large <= max(largest)):
        raise Redraw(f"{left}{operator}{right} is not in the drills")
    return Step(left, operator, right, value)


def _number(term):
    return term.value if isinstance(term, Step) else term


def plus(left, right):
    """The step `left+right`; terms are ints or earlier steps.

    Raises:
      Redraw: the numbers are outside the tables. So do `minus`, `times`, `share`.
    """
    left, right = _number(left), _number(right)
    return _step(left, "+", right, left + right, (left, right), LARGEST_TERMS)


def minus(left, right):
    """The step `left-right`, the inverse of a drilled sum, so never negative."""
    left, right = _number(left), _number(right)
    rest = left - right
    return _step(left, "-", right, rest, (rest, right), LARGEST_TERMS)


def times(left, right):
    """The step `left*right`."""
    left, right = _number(left), _number(right)
    return _step(left, "*", right, left * right, (left, right), LARGEST_FACTORS)


def share(left, right):
    """The step `left/right`, the inverse of a drilled product, so always exact."""
    left, right = _number(left), _number(right)
    if right == 0 or left % right:
        raise Redraw(f"{left}/{right} is not a whole number")
    each = left // right
    return _step(left, "/", right, each, (each, right), LARGEST_FACTORS)


def fact(rng):
    """One random fact of the tables, as a `Step`.

    Half of the sums have a single-digit term: those are the ones problems use most.

    Args:
      rng: a `random.Random`.
    """
    operation = rng.choice((plus, minus, times, share))
    largest = LARGEST_TERMS if operation in (plus, minus) else LARGEST_FACTORS
    large = rng.randint(SMALLEST, largest[0])
    small = rng.randint(SMALLEST, rng.choice((9, largest[1])))
    first, second = rng.choice(((large, small), (small, large)))
    if operation is minus:
        return minus(first + second, second)
    if operation is share:
        return share(first * second, second)
    return operation(first, second)


def drill(rng, facts=9):
    """One row of bare arithmetic for pretraining: `<<7+8=15>>15 <<6*5=30>>30 ...`.

    Args:
      rng: a `random.Random`.
      facts: how many facts the row holds.
    """
    return " ".join(str(fact(rng)) for _ in range(facts))
