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


def last(part, pattern=NUMBER, value=Fraction):
    found = re.findall(pattern, part)
    try:
        return value(found[-1])
    except (IndexError, ValueError, ZeroDivisionError):
        return None


def after(text):
    """What follows the last mark on its line, or all."""
    _, mark, rest = plain(text).rpartition("####")
    return rest.partition("\n")[0] if mark else plain(text)


def strict(text, *, pattern=NUMBER, value=Fraction, most=1, one_line=True):
    _, mark, rest = plain(text).rpartition("####")
    found = re.findall(pattern, rest.partition("\n")[0] if one_line else rest)
    return value(found[0]) if mark and 1 <= len(found) <= most else None


def making(
    *,
    last_line=lambda text: last_line_of(text),
    fits=lambda found, given: (
        not (collections.Counter(found) - collections.Counter(given))
    ),
    value=calculator.calculate,
    pattern=r"[\d.]+",
):
    """The solution of 05-1, with its usual mistakes as switches."""

    def answer(text, numbers, target):
        line = last_line(text)
        found = re.findall(pattern, line or "")
        fit = line is not None and fits(found, list(map(str, numbers)))
        return float(fit and value(line) == target)

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


def mistaken(right, strict=STRICT_36, lenient=LENIENT_36, kind=set):
    """The answer to 03-2 of someone who reads so."""
    readers = {"strict": strict, "lenient": lenient}
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
    z=1.96,
    power=2,
):
    """The solution of 03-4, with its usual mistakes as switches."""
    gain = gained - lost
    scale = z**2 / abs(gain) ** power
    return scale * both(before, before + gain), scale * change(gained, lost)


def asking(**mistake):
    return functools.partial(questions, **mistake)


def by_table(before, gained, lost):
    """A right alternative: a hundred thousand questions, written out."""
    n = 100_000
    old, won, gone = (round(n * share) for share in (before, gained, lost))
    kept = old - gone
    pairs = np.repeat(
        [[1, 1], [1, 0], [0, 1], [0, 0]], [kept, gone, won, n - old - won], axis=0
    )
    gain = (gained - lost) / 1.96
    change = pairs[:, 1] - pairs[:, 0]
    return pairs.var(axis=0).sum() / gain**2, change.var() / gain**2


def rounded_up(before, gained, lost):
    return [math.ceil(n) for n in questions(before, gained, lost)]


def weights(correct, form, sums, length):
    names = ("correct", "format_reward", "annotations_hold", "length_penalty")
    return dict(zip(names, (correct, form, sums, length), strict=True))


def shown(prompts, completions, answer, *, gate=True, work=all, bare=0.5, empty=True):
    right = rewards.correct(prompts, completions, answer)
    paid = []
    for text, r in zip(completions, right, strict=True):
        sums = rewards.annotations(text)
        nothing = re.search(r"<<\d+=", text) and empty
        worked = bool(sums) and work(sums) and not nothing
        paid.append((r if gate else 1.0) * (1.0 if worked else bare))
    return paid


def paying(**mistake):
    def reward(prompts, completions, answer, **_):
        return shown(prompts, completions, answer, **mistake)

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
        "the first mark": lambda text: last(
            plain(text).partition("####")[2].partition("\n")[0]
            if "####" in text
            else plain(text)
        ),
        "all that follows the mark": lambda text: last(
            plain(text).rpartition("####")[2]
        ),
        "only with a mark": strict,
        "the last line": lambda text: last(plain(text).strip().split("\n")[-1]),
        "floats": lambda text: last(after(text), value=float),
        "no commas": lambda text: last(text.rpartition("####")[2]),
    },
    "03-2": {
        "all with a 36": mistaken({1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14}),
        "luck is right": mistaken(TRUE_36 | {6}),
        "a step that is not in the question is right": mistaken(TRUE_36 | {3}),
        "cents are dollars": mistaken(TRUE_36 | {12}),
        "a denial is right": mistaken(TRUE_36 | {1}),
        "words are no number": mistaken(TRUE_36 - {9}),
        "no box without work": mistaken(TRUE_36 - {10}),
    },
    "03-3": {
        "one point": 9604,
        "a fifth": 500,
        "too few": 2000,
        "too many": 3000,
        "a text": "2401",
        "half a question": 2400.5,
    },
    "03-4": {
        "one run has no spread": asking(both=lambda p, q: p * (1 - p)),
        "the second run alone": asking(both=lambda p, q: q * (1 - q)),
        "as if the shares were equal": asking(both=lambda p, q: 2 * p * (1 - p)),
        "at worst": asking(both=lambda p, q: 0.5),
        "the mean change stays in": asking(change=lambda g, lost: g + lost),
        "two shares once more": asking(
            change=lambda g, lost: g * (1 - g) + lost * (1 - lost)
        ),
        "only what was gained": asking(change=lambda g, lost: g - (g - lost) ** 2),
    },
    "05-1": {
        "only the value": making(fits=lambda found, given: True),
        "a set of numbers": making(fits=lambda found, given: set(found) <= set(given)),
        "not more numbers": making(fits=lambda found, given: len(found) <= len(given)),
        "all of them": making(fits=lambda found, given: sorted(found) == sorted(given)),
        "digits": making(
            fits=lambda found, given: (
                not (
                    collections.Counter("".join(found))
                    - collections.Counter("".join(given))
                )
            )
        ),
        "no mark needed": making(last_line=lambda text: text.split("####")[-1]),
        "the first mark": making(
            last_line=lambda text: text.partition("####")[2].partition("\n")[0]
        ),
    },
    "05-2": {
        "all alike": weights(1, 1, 1, 1),
        "a tie": weights(1, 0.5, 0.25, 0.25),
        "nothing for length": weights(1, 0.1, 0.1, 0),
        "below 0": weights(1, 0.1, -0.1, 0.1),
        "infinite": weights(math.inf, 1, 1, 1),
        "forgets the length": weights(1, 0.4, 0.4, 0.3),
        "one alone": {"correct": 1.0},
    },
    "05-3": {
        "nothing": "",
        "numbers without a sum": MANY,
        "a sum without numbers": "<<1=1>>",
        "one false sum": f"<<1=1>> <<1=2>> {MANY}",
        "too few numbers": "<<1=1>> " + " ".join(map(str, range(30))),
        "too long": "<<1=1>>" * 5000 + MANY,
        "no text": [MANY],
    },
    "05-4": {
        "only correct": rewards.correct,
        "only sums": lambda prompts, completions, **_: rewards.annotations_hold(
            prompts, completions
        ),
        "pays for wrong ones": paying(gate=False),
        "any sum holds": paying(work=any),
        "the first and the last": paying(work=lambda held: held[0] and held[-1]),
        "most": paying(work=lambda held: 2 * sum(held) > len(held)),
        "the first two": paying(work=lambda held: all(held[:2])),
    },
}

RIGHT = {
    "03-1": {
        "a line": lambda text: last(after(text)),
        "the divisor looked at": lambda text: (
            None
            if re.search(
                r"/0+$|\d{1000}", "".join(re.findall(NUMBER, after(text))[-1:])
            )
            else last(after(text))
        ),
        "by split": lambda text: (
            last(plain(text).split("####")[-1].split("\n")[0])
            if "####" in text
            else last(plain(text))
        ),
    },
    "03-2": {
        "sets": mistaken(TRUE_36),
        "lists": mistaken(TRUE_36, kind=sorted),
        "frozen": dict(reversed(mistaken(TRUE_36, kind=frozenset).items())),
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
