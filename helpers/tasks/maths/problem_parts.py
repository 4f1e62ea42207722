"""What word problems are made of: people and things, worked steps, drills and stories.

The lists are short so that a model of under a million parameters can know every word,
and every operation a problem uses is one that `drill` can show. A model that has seen
enough drills has met every fact it will need. The tables are small on purpose:

  +   up to 60+40, in either order        -   their inverses, 100-40=60
  *   up to 14*9, in either order         /   their inverses, 126/9=14
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Person:
    """A first name with its pronouns; prints as the name."""

    name: str
    he: str
    his: str

    @property
    def He(self):  # noqa: N802 - reads as the word it stands for
        """The pronoun at the start of a sentence."""
        return self.he.capitalize()

    def __str__(self):
        return self.name


@dataclass(frozen=True, eq=False)
class Thing:
    """A countable thing; prints as its plural."""

    one: str
    many: str

    @property
    def a(self):
        """The singular with its article: "a pen", "an apple"."""
        return ("an " if self.one[0] in "aeiou" else "a ") + self.one

    @property
    def A(self):  # noqa: N802 - reads as the word it stands for
        """The same at the start of a sentence: "A pen", "An apple"."""
        return self.a[0].upper() + self.a[1:]

    def __str__(self):
        return self.many


def _people(names, he, his):
    return tuple(Person(name, he, his) for name in names.split())


def _things(singulars):
    return tuple(Thing(one, one + "s") for one in singulars.split())


PEOPLE = (
    *_people("Ben Juan Leo Max Omar Ravi Sam Tom", "he", "his"),
    *_people("Aisha Anna Emma Lucy Maya Mia Nora Zoe", "she", "her"),
)
TOYS = _things("bead card coin marble shell stamp sticker")
FOODS = _things("apple cake cookie egg orange pear")
GOODS = _things("book hat lamp mug pen shirt ticket")


class Draw:
    """What one problem draws: people, things and numbers, none of the first two twice.

    Args:
      rng: a `random.Random`, the only source of chance.
    """

    def __init__(self, rng):
        self.rng = rng
        self.people = []
        self._things = []

    def person(self):
        """A `Person` who is not in the problem yet."""
        rest = [person for person in PEOPLE if person not in self.people]
        self.people.append(self.rng.choice(rest))
        return self.people[-1]

    def toy(self):
        """A `Thing` to collect, find, or give away."""
        return self._thing(TOYS)

    def food(self):
        """A `Thing` to eat, bake, or share."""
        return self._thing(FOODS)

    def goods(self):
        """A `Thing` with a price, to buy or sell."""
        return self._thing(GOODS)

    def thing(self):
        """Any `Thing` that comes in boxes."""
        return self._thing(TOYS + FOODS)

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

    def _thing(self, kind):
        rest = [thing for thing in kind if thing not in self._things]
        self._things.append(self.rng.choice(rest))
        return self._things[-1]


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


SENTENCES = (
    lambda d, who, friend: f"{who.He} has {d.start()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} finds {d.few()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} buys {d.goods().a} for ${d.few()}.",
    lambda d, who, friend: f"{who.He} gives {d.food().a} to {friend}.",
    lambda d, who, friend: f"{who.He} gets {d.toy().a} and {d.goods().a}.",
    lambda d, who, friend: f"{who.He} puts {d.few()} {d.food()} in a bag.",
    lambda d, who, friend: f"{who.He} is {d.number(9, 40)} years old.",
    lambda d, who, friend: f"{who.He} saves ${d.few()} every week.",
    lambda d, who, friend: f"There are {d.few()} {d.food()} in {who.his} box.",
)
ENDINGS = (
    lambda d, who, friend: f"They walk {d.few()} km together.",
    lambda d, who, friend: f"They share {d.food().a}.",
    lambda d, who, friend: f"{friend} eats {d.food().a} and {d.food().a}.",
    lambda d, who, friend: f"{friend} reads {d.start()} pages of a book.",
    lambda d, who, friend: f"{friend} has more {d.toy()} than {who}.",
    lambda d, who, friend: f"Then {friend} gives {who} {d.toy().a}.",
)


def story(rng):
    """Three or four sentences about two people, without a question.

    Args:
      rng: a `random.Random`.
    """
    d = Draw(rng)
    who, friend = d.person(), d.person()
    day = d.pick("Monday", "Tuesday", "Sunday")
    verb = d.pick("works", "walks", "runs")
    makers = [*rng.sample(SENTENCES, d.number(1, 2)), rng.choice(ENDINGS)]
    sentences = [sentence(d, who, friend) for sentence in makers]
    return " ".join([f"On {day} {who} {verb} with {friend}.", *sentences])
