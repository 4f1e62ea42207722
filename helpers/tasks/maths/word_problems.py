"""Word problems in GSM8K's form, made here, so that the course runs without a network.

A row is what real GSM8K gives, and a little more:

  question  "Tom buys 6 tickets for $5 each and a hat for $7. How much ..."
  answer    one line a step, "The tickets cost $<<6*5=30>>30.", then "#### 37"
  level     how many steps the answer takes, 1 to 4
  template  which sentence pattern it came from, "several_and_one"
  names     the people in it, ["Tom"]
  id        a hash of the template and its arithmetic, without names and things

Train and test are kept apart by `id`: a test problem is a new arithmetic situation, not
a training problem with another name in it.

To add a template, write a macro into its section of one of the `.jinja` files here. A
macro gets a `Draw` and gives the question, which may go over several
lines and ends in its only question mark, and one line for each step. Numbers that lead
to a negative, a fraction, or outside the drills are drawn again by themselves.

The lists of people and things are short so that a model of under a million parameters
can know every word, and every operation a problem uses is one that `drill` can show. A
model that has seen enough drills has met every fact it will need. The tables are small
on purpose:

  +   up to 60+40, in either order        -   their inverses, 100-40=60
  *   up to 14*9, in either order         /   their inverses, 126/9=14
"""

import functools
import hashlib
import pathlib
import random
import re

import jinja2

__all__ = ["LEVELS", "answer_only", "demonstrations", "drill", "generate", "story"]

TEST_SHARE = 8  # one arithmetic situation in eight is test
PATIENCE = 3000  # draws in a row without a new problem before we call it exhausted
TEMPLATES = sorted(pathlib.Path(__file__).parent.glob("*_problems.jinja"))
LEVELS = {1: "one step", 2: "two steps", 3: "three steps", 4: "four steps"}


# --- people, things and worked steps ---

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


# --- problems ---

JINJA = jinja2.Environment(line_statement_prefix="%", undefined=jinja2.StrictUndefined)
JINJA.globals |= {step.__name__: step for step in (plus, minus, times, share)}


def read_templates(text):
    """The macros in a text of templates, in its order."""
    module = JINJA.from_string(text).module
    return [getattr(module, name) for name in re.findall(r"% macro (\w+)", text)]


@functools.cache
def _sections():
    """{title: text} of all sections of the template files."""
    text = "\n".join(path.read_text("utf-8") for path in TEMPLATES)
    _, *parts = re.split(r"\{# ---- (.+) ---- #\}\n", text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@functools.cache  # here and not at import: compiling takes a tenth of a second
def templates_of(level):
    """The macros of a level's problems."""
    return read_templates(_sections()[LEVELS[level]])


def generate(n, *, seed, levels=(1, 2, 3), split="train", templates=None):
    """Distinct word problems, the same for the same seed on every machine.

    A longer list begins with the shorter one of the same seed.

    Args:
      n: how many rows.
      seed: int; another seed gives other problems (which may overlap).
      levels: the numbers of steps to draw from, each as often as the others.
      split: "train" or "test"; the two share no `id`, whatever the seeds.
      templates: macros of `read_templates` to draw from instead of those of `levels`.
    Returns:
      A list of n rows as described at the top of this file.
    Raises:
      ValueError: an unknown level or split, or fewer than n distinct problems exist.
    """
    if split not in ("train", "test"):
        raise ValueError(f'split is "train" or "test", not {split!r}.')
    levels = (levels,) if isinstance(levels, int) else tuple(levels)
    if not levels or not set(levels) <= set(LEVELS):
        raise ValueError(f"levels are some of {tuple(LEVELS)}, not {levels!r}.")
    groups = [templates] if templates else [templates_of(level) for level in levels]
    rng = random.Random(seed)
    rows: list[dict] = []
    seen: set[str] = set()
    misses = 0
    while len(rows) < n:
        row = _draw_row(rng.choice(rng.choice(groups)), rng)
        if row["question"] in seen or in_test(row["id"]) != (split == "test"):
            misses += 1
            if misses == PATIENCE:
                raise ValueError(
                    f"Found {len(rows)} distinct {split} problems, not {n}: these "
                    f"templates have no more. Ask for fewer, or add levels."
                )
            continue
        misses = 0
        seen.add(row["question"])
        rows.append(row)
    return rows


def in_test(problem_id):
    """Whether a problem with this `id` belongs to the test split."""
    return int(problem_id, 16) % TEST_SHARE == 0


def _draw_row(template, rng):
    """One row of a template; numbers it cannot work with are drawn again."""
    for _ in range(PATIENCE):
        draw = Draw(rng)
        try:
            question, steps = template(draw).split("?\n")
            break
        except Redraw:
            continue
    else:
        raise ValueError(
            f"{template.name} found no numbers inside the drills in {PATIENCE} "
            f"draws. Draw smaller numbers in it."
        )
    question, steps = " ".join(question.split()) + "?", steps.strip().split("\n")
    operations = re.findall(r"<<.*?>>", " ".join(steps))
    key = " ".join([template.name, *re.findall(r"\d+", question), *operations])
    (value,) = re.findall(r"=(\d+)>>", steps[-1])
    return {
        "question": question,
        "answer": "\n".join([*steps, f"#### {value}"]),
        "level": len(steps),
        "template": template.name,
        "names": [str(person) for person in draw.people],
        "id": hashlib.sha256(key.encode()).hexdigest()[:12],
    }


def demonstrations(rows, *, answer_only, seed):
    """Rows with a "response" to imitate: most show their work, some only answer.

    Args:
      rows: rows of `generate` or `gsm8k.load`; they are left as they are.
      answer_only: the share of rows, 0 to 1, whose response is only the final line.
      seed: int, decides which rows those are.
    Returns:
      New rows in the same order, each with "response".
    """
    count = round(answer_only * len(rows))
    short = set(random.Random(seed).sample(range(len(rows)), count))
    return [
        {**row, "response": _final_line(row) if i in short else row["answer"]}
        for i, row in enumerate(rows)
    ]


def _final_line(row):
    """The last line of a row's answer alone: "#### 37"."""
    return row["answer"].strip().splitlines()[-1]


answer_only = _final_line  # the argument of `demonstrations` hides this name


@functools.cache
def _story_templates():
    """Templates of sentences, and of last sentences."""
    groups = _sections()["stories"].strip().split("\n\n")
    return [[JINJA.from_string(x) for x in group.splitlines()] for group in groups]


def story(rng):
    """Three or four sentences about two people, without a question.

    Args:
      rng: a `random.Random`.
    """
    d = Draw(rng)
    who, friend = d.person(), d.person()
    day = d.pick("Monday", "Tuesday", "Sunday")
    verb = d.pick("works", "walks", "runs")
    sentences, endings = _story_templates()
    drawn = [*rng.sample(sentences, d.number(1, 2)), rng.choice(endings)]
    texts = [sentence.render(d=d, who=who, friend=friend) for sentence in drawn]
    return " ".join([f"On {day} {who} {verb} with {friend}.", *texts])
