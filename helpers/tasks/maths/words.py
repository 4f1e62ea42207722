"""The small world of the word problems: who is in it, what they own, how to draw.

The lists are short so that a model of under a million parameters can know every word.
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
