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
macro gets a `problem_parts.Draw` and gives the question, which may go over several
lines and ends in its only question mark, and one line for each step. Numbers that lead
to a negative, a fraction, or outside the drills are drawn again by themselves.
"""

import functools
import hashlib
import pathlib
import random
import re

import jinja2

from helpers.tasks.maths.problem_parts import (
    Draw,
    Redraw,
    drill,
    minus,
    plus,
    share,
    times,
)

__all__ = ["LEVELS", "answer_only", "demonstrations", "drill", "generate", "story"]

TEST_SHARE = 8  # one arithmetic situation in eight is test
PATIENCE = 3000  # draws in a row without a new problem before we call it exhausted
TEMPLATES = sorted(pathlib.Path(__file__).parent.glob("*_problems.jinja"))
LEVELS = {1: "one step", 2: "two steps", 3: "three steps", 4: "four steps"}
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
