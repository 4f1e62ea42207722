"""Notebooks 03 and 05: reading numbers, and what pays."""

import collections
import functools
import math
import re
from fractions import Fraction

import numpy as np

from helpers import rewards
from helpers.tools import calculator

NUMBER = r"-?(?:\d+(?:\.\d+|/\d+)?|\.\d+)"


def plain(text):
    return re.sub("[,$]", "", text.replace("−", "-"))


def last(part, value=Fraction):
    try:
        return value(re.findall(NUMBER, part)[-1])
    except (IndexError, ValueError, ZeroDivisionError):
        return None


def after(text):
    """What follows the last mark on its line, or all."""
    _, mark, rest = plain(text).rpartition("####")
    return rest.partition("\n")[0] if mark else plain(text)


def strict(text):
    _, mark, rest = plain(text).rpartition("####")
    numbers = re.findall(NUMBER, rest.partition("\n")[0])
    return Fraction(numbers[0]) if mark and len(numbers) == 1 else None


def making(
    *,
    last_line=lambda text: last_line_of(text),
    fits=lambda written, given: (
        not (collections.Counter(written) - collections.Counter(given))
    ),
):
    """The solution of 05-1, with its usual mistakes as switches."""

    def answer(text, numbers, target):
        line = last_line(text)
        written = re.findall(r"[\d.]+", line or "")
        fit = line is not None and fits(written, list(map(str, numbers)))
        return float(fit and calculator.calculate(line) == target)

    return answer


def last_line_of(text):
    """What follows the last mark on its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.partition("\n")[0] if mark else None


def taken_away(text, numbers, target):
    """A right alternative: each number that is written is taken from those left."""
    line, left = last_line_of(text), [str(number) for number in numbers]
    for number in re.findall(r"[0-9.]+", line or ""):
        if number not in left:
            return 0.0
        left.remove(number)
    return 1.0 if line and calculator.calculate(line) == target else 0.0


# Of helpers.exercises.measuring.ANSWERS: what is right, what each reader accepts.
TRUE_36 = {2, 4, 5, 7, 9, 10, 11, 14}
STRICT_36, LENIENT_36 = {2, 3, 6, 7, 12}, {1, 2, 3, 4, 6, 7, 10, 12}


def mistaken(right, kind=set):
    """The answer to 03-2 of someone who reads so."""
    readers = {"strict": STRICT_36, "lenient": LENIENT_36}
    return {
        who: {
            "right, rejected": kind(right - accepted),
            "wrong, accepted": kind(accepted - right),
        }
        for who, accepted in readers.items()
    }


def questions(
    before,
    gained,
    lost,
    *,
    change=lambda gained, lost: gained + lost - (gained - lost) ** 2,
    both=lambda p, q: p * (1 - p) + q * (1 - q),
):
    """The solution of 03-4, with its usual mistakes as switches."""
    gain = gained - lost
    scale = 1.96**2 / gain**2
    return scale * both(before, before + gain), scale * change(gained, lost)


def asking(**mistake):
    return functools.partial(questions, **mistake)


def by_table(before, gained, lost):
    """A right alternative: a hundred thousand questions, written out."""
    n = 100_000
    old, won, gone = (round(n * share) for share in (before, gained, lost))
    stay = old - gone
    pairs = np.repeat(
        [[1, 1], [1, 0], [0, 1], [0, 0]], [stay, gone, won, n - old - won], axis=0
    )
    gain = (gained - lost) / 1.96
    change = pairs[:, 1] - pairs[:, 0]
    return pairs.var(axis=0).sum() / gain**2, change.var() / gain**2


def rounded_up(before, gained, lost):
    return [math.ceil(n) for n in questions(before, gained, lost)]


def weights(correct, form, sums, length):
    names = ("correct", "format_reward", "annotations_hold", "length_penalty")
    return dict(zip(names, (correct, form, sums, length), strict=True))


def paying(gate=True, work=all):
    """The solution of 05-4, with its usual mistakes as switches."""

    def reward(prompts, completions, answer, **_):
        right = rewards.correct(prompts, completions, answer)
        paid = []
        for text, r in zip(completions, right, strict=True):
            sums = rewards.annotations(text)
            worked = bool(sums) and work(sums) and not re.search(r"<<\d+=", text)
            paid.append((r if gate else 1.0) * (1.0 if worked else 0.5))
        return paid

    return reward


def operators(prompts, completions, answer, **_):
    """A right alternative: every sum must have an operator between two numbers."""
    paid = []
    for text, gold in zip(completions, answer, strict=True):
        sums = re.findall(r"<<([^<>=]*)=[^<>=]*>>", text)
        real = sums and all(re.search(r"\d\)*\s*[-+*/]", left) for left in sums)
        holds = real and all(rewards.annotations(text))
        right = rewards.extract_strict(text) == rewards.gold_number(gold)
        paid.append((1.0 if holds else 0.25) if right else 0.0)
    return paid


def lenient(prompts, completions, answer, **_):
    """Takes the last number of a text for its answer, wherever it stands."""
    marked = [f"{text}\n#### {rewards.extract_lenient(text)}" for text in completions]
    return operators(prompts, marked, answer)


MANY = " ".join(map(str, range(1000)))

WRONG = {
    "03-1": {
        "no look at the mark": lambda text: last(plain(text)),
        "all that follows the mark": lambda text: last(
            plain(text).rpartition("####")[2]
        ),
        "only with a mark": strict,
        "floats": lambda text: last(after(text), value=float),
    },
    "03-2": {
        "all with a 36": mistaken({1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14}),
        "a step that is not in the question is right": mistaken(TRUE_36 | {3}),
        "cents are dollars": mistaken(TRUE_36 | {12}),
        "words are no number": mistaken(TRUE_36 - {9}),
    },
    "03-3": {
        "too few": 2000,
        "too many": 3000,
        "a text": "2401",
        "half a question": 2400.5,
    },
    "03-4": {
        "one run has no spread": asking(both=lambda p, q: p * (1 - p)),
        "at worst": asking(both=lambda p, q: 0.5),
        "the mean change stays in": asking(change=lambda g, lost: g + lost),
        "only what was gained": asking(change=lambda g, lost: g - (g - lost) ** 2),
    },
    "05-1": {
        "only the value": making(fits=lambda written, given: True),
        "a set of numbers": making(fits=lambda written, given: {*written} <= {*given}),
        "no mark needed": making(last_line=lambda text: text.split("####")[-1]),
        "the first mark": making(
            last_line=lambda text: text.partition("####")[2].partition("\n")[0]
        ),
    },
    "05-2": {
        "all alike": weights(1, 1, 1, 1),
        "nothing for length": weights(1, 0.1, 0.1, 0),
        "below 0": weights(1, 0.1, -0.1, 0.1),
        "forgets the length": weights(1, 0.4, 0.4, 0.3),
    },
    "05-3": {
        "nothing": "",
        "numbers without a sum": MANY,
        "one false sum": f"<<1=1>> <<1=2>> {MANY}",
        "too long": "<<1=1>>" * 5000 + MANY,
    },
    "05-4": {
        "only correct": rewards.correct,
        "only sums": lambda prompts, completions, **_: rewards.annotations_hold(
            prompts, completions
        ),
        "pays for wrong ones": paying(gate=False),
        "any sum holds": paying(work=any),
    },
}

RIGHT = {
    "03-1": {
        "a line": lambda text: last(after(text)),
        "by split": lambda text: (
            last(plain(text).split("####")[-1].split("\n")[0])
            if "####" in text
            else last(plain(text))
        ),
    },
    "03-2": {
        "sets": mistaken(TRUE_36),
        "lists": mistaken(TRUE_36, kind=sorted),
    },
    "03-3": {"exact": 2401, "rounded": 2450, "a float": 2401.0},
    "03-4": {"written out": by_table, "rounded up": rounded_up},
    "05-1": {"one by one": making(), "taken away": taken_away},
    "05-2": {"large": weights(10, 3, 3, 3), "small": weights(0.5, 0.1, 0.1, 0.1)},
    "05-3": {
        "downwards": "<<2+2=4>> " + " ".join(map(str, reversed(range(1000)))),
        "lines": "\n".join(map(str, range(990))) + "\n<<1+1=2>>",
    },
    "05-4": {"operators": operators, "partial": functools.partial(operators)},
}
