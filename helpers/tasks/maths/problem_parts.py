"""What word problems are made of: people and things, worked steps, and drills.

The lists are short so that a model of under a million parameters can know every word,
and every operation a problem uses is one that `drill` can show. A model that has seen
enough drills has met every fact it will need. The tables are small on purpose:

  +   up to 60+40, in either order        -   their inverses, 100-40=60
  *   up to 14*9, in either order         /   their inverses, 126/9=14
"""

WOMEN = "Aisha Anna Emma Lucy Maya Mia Nora Zoe".split()


class Person(str):
    """A first name with its pronouns."""

    @property
    def he(self):
        """He or she."""
        return "she" if self in WOMEN else "he"

    @property
    def his(self):
        """His or her."""
        return "her" if self in WOMEN else "his"

    @property
    def He(self):  # noqa: N802 - reads as the word it stands for
        """The pronoun at the start of a sentence."""
        return self.he.capitalize()


class Thing(str):
    """The plural of a countable thing, "pens"."""

    @property
    def one(self):
        """The singular."""
        return self.removesuffix("s")

    @property
    def a(self):
        """The singular with its article: "a pen", "an apple"."""
        return ("an " if self[0] in "aeiou" else "a ") + self.one


PEOPLE = tuple(map(Person, "Ben Juan Leo Max Omar Ravi Sam Tom".split() + WOMEN))
TOYS = tuple(map(Thing, "beads cards coins marbles shells stamps stickers".split()))
FOODS = tuple(map(Thing, "apples cakes cookies eggs oranges pears".split()))
GOODS = tuple(map(Thing, "books hats lamps mugs pens shirts tickets".split()))


class Draw:
    """What one problem draws: people, things and numbers, none of the first two twice.

    Args:
      rng: a `random.Random`, the only source of chance.
    """

    def __init__(self, rng):
        self.rng, self.people, self.things = rng, [], []

    def person(self):
        """A `Person` who is not in the problem yet."""
        return self._another(PEOPLE, self.people)

    def toy(self):
        """A `Thing` to collect, find, or give away."""
        return self._another(TOYS, self.things)

    def food(self):
        """A `Thing` to eat, bake, or share."""
        return self._another(FOODS, self.things)

    def goods(self):
        """A `Thing` with a price, to buy or sell."""
        return self._another(GOODS, self.things)

    def thing(self):
        """Any `Thing` that comes in boxes."""
        return self._another(TOYS + FOODS, self.things)

    def _another(self, kind, drawn):
        drawn.append(self.rng.choice([each for each in kind if each not in drawn]))
        return drawn[-1]

    def pick(self, *choices):
        """One of several words that mean the same to the arithmetic."""
        return self.rng.choice(choices)

    def multiple(self):
        """How many times as many, in words and as a number."""
        return self.pick(("twice", 2), ("three times", 3), ("four times", 4))

    def fraction(self):
        """A part of something, in words, and in how many such parts it is cut."""
        return self.pick(("half", 2), ("a third", 3), ("a quarter", 4))

    def percent(self):
        """A percentage that is one of so many equal parts: 25% is one of 4."""
        return self.pick((50, 2), (25, 4), (20, 5), (10, 10))

    def number(self, low, high):
        """A whole number from low to high, both included."""
        return self.rng.randint(low, high)

    def few(self):
        """A small number, 2 to 9."""
        return self.rng.randint(2, 9)

    def start(self):
        """How many there are to begin with, 5 to 20."""
        return self.rng.randint(5, 20)


SMALLEST = 2  # no 0 and no 1: they teach little, and "1 apples" is not English
LARGEST_TERMS = (60, 40)
LARGEST_FACTORS = (14, 9)


class Redraw(Exception):
    """The numbers drawn lead outside the drilled tables: draw others."""


class Step(int):
    """The value of one operation; prints in GSM8K's form, `<<6*5=30>>30`."""

    text: str

    def __new__(cls, left, operator, right, value, drilled, largest):
        """`drilled` are the two numbers that stand in the tables for the operation."""
        small, large = sorted(drilled)
        sum_ = f"{int(left)}{operator}{int(right)}"
        if not (SMALLEST <= small <= min(largest) and large <= max(largest)):
            raise Redraw(f"{sum_} is not in the drills")
        step = super().__new__(cls, value)
        step.text = f"<<{sum_}={value}>>{value}"
        return step

    def __str__(self):
        return self.text


def plus(left, right):
    """The step `left+right`; terms are ints or earlier steps.

    Raises:
      Redraw: the numbers are outside the tables. So do `minus`, `times`, `share`.
    """
    return Step(left, "+", right, left + right, (left, right), LARGEST_TERMS)


def minus(left, right):
    """The step `left-right`, the inverse of a drilled sum, so never negative."""
    rest = left - right
    return Step(left, "-", right, rest, (rest, right), LARGEST_TERMS)


def times(left, right):
    """The step `left*right`."""
    return Step(left, "*", right, left * right, (left, right), LARGEST_FACTORS)


def share(left, right):
    """The step `left/right`, the inverse of a drilled product, so always exact."""
    each, rest = divmod(left, right) if right else (0, 1)
    if rest:
        raise Redraw(f"{int(left)}/{int(right)} is not a whole number")
    return Step(left, "/", right, each, (each, right), LARGEST_FACTORS)


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
