"""Notebooks 03 and 05: reading numbers, and what pays."""

import collections
import functools
import math
import re
from fractions import Fraction

import numpy as np

from helpers import rewards
from helpers.exercises import rewards as checks
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


def unguarded(text, *, zero="/0", longest=10**6):
    """Right wherever it does not raise."""
    found = re.findall(NUMBER, after(text))
    if not found or found[-1].endswith(zero) or len(found[-1]) > longest:
        return None
    return Fraction(found[-1])


def after(text):
    """What follows the last mark on its line, or all."""
    _, mark, rest = plain(text).rpartition("####")
    return rest.partition("\n")[0] if mark else plain(text)


def strict(text, *, pattern=NUMBER, value=Fraction, most=1, one_line=True):
    _, mark, rest = plain(text).rpartition("####")
    found = re.findall(pattern, rest.partition("\n")[0] if one_line else rest)
    return value(found[0]) if mark and 1 <= len(found) <= most else None


def as_float(text):
    """Right but for its type, wherever a float is exact."""
    value = rewards.extract_lenient(text)
    return value if value is None or float(value) != value else float(value)


def as_int(text):
    value = rewards.extract_lenient(text)
    return value if value is None or value.denominator > 1 else int(value)


def after_a_blank(text):
    """Knows the mark only with a blank behind it."""
    rest = plain(text).rpartition("#### ")[2]
    return last(rest.partition("\n")[0] if "#### " in text else plain(text))


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


def evaluated(line):
    try:
        return eval(line)
    except Exception:
        return None


def seems_a_sum(line):
    """Nearly 28 is 28, and ** a sign like others."""
    if not re.fullmatch(r"[\d\s+\-*/().]+", line):
        return None
    value = evaluated(line)
    return value if value is None else round(value, 9)


def eats_numbers(text, numbers, target):
    paid = making()(text, numbers, target)
    numbers.clear()
    return paid


def taken_away(text, numbers, target):
    """A right alternative: each number that is written is taken from those left."""
    line, left = last_line_of(text), [str(number) for number in numbers]
    for number in re.findall(r"[0-9.]+", line or ""):
        if number not in left:
            return 0.0
        left.remove(number)
    return 1.0 if line and calculator.calculate(line) == target else 0.0


def rounded(read):
    """A reader whose fractions were floats on the way."""

    def answer(text):
        value = read(text)
        return value if value is None else Fraction(float(value)).limit_denominator()

    return answer


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


ALL_36 = (TRUE_36, STRICT_36, LENIENT_36)


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


def one_with_an_operator(prompts, completions, answer, **_):
    """Asks that some sum have an operator, and lets others have none."""
    paid = []
    right = rewards.correct(prompts, completions, answer)
    for text, r in zip(completions, right, strict=True):
        real = re.search(r"<<[^<>=]*\d\)*\s*[-+*/][^<>=]*=", text)
        paid.append(r * (1.0 if real and all(rewards.annotations(text)) else 0.5))
    return paid


def signs_behind_the_first(prompts, completions, answer, **_):
    """Looks for a sign past the first letter, whatever stands before it."""
    paid = []
    right = rewards.correct(prompts, completions, answer)
    for text, r in zip(completions, right, strict=True):
        sums = re.findall(r"<<([^<>=]*)=[^<>=]*>>", text)
        real = sums and all(re.search(r"[-+*/]", left.strip()[1:]) for left in sums)
        paid.append(r * (1.0 if real and all(rewards.annotations(text)) else 0.5))
    return paid


def lenient(prompts, completions, answer, **_):
    """Takes the last number of a text for its answer, wherever it stands."""
    marked = [f"{text}\n#### {rewards.extract_lenient(text)}" for text in completions]
    return operators(prompts, marked, answer)


def contains(prompts, completions, answer, **columns):
    """Pays wherever the gold number stands."""
    found = checks.contains_answer(prompts, completions, answer)
    paid = operators(prompts, completions, answer)
    return [f * max(p, 0.25) for f, p in zip(found, paid, strict=True)]


def only_level(prompts, completions, answer, level=None):
    """Takes one more column, and no others."""
    return operators(prompts, completions, answer)


def first_gold(prompts, completions, answer, **_):
    return operators(prompts, completions, [answer[0]] * len(completions))


def known_gold(prompts, completions, answer, **_):
    return operators(prompts, completions, [checks.GOLD] * len(completions))


def sorted_by_pay(prompts, completions, answer, **_):
    return sorted(operators(prompts, completions, answer))


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
        "no fractions": lambda text: last(after(text), r"-?\d+(?:\.\d+)?"),
        "no decimals": lambda text: last(after(text), r"-?\d+(?:/\d+)?"),
        "no sign before a currency": lambda text: last(
            after(text.replace("-$", "$").replace("$", ""))
        ),
        "zero for 1/0": lambda text: Fraction(0) if "/0" in text else last(after(text)),
        "no sign": lambda text: last(after(text), r"\d+(?:\.\d+|/\d+)?"),
        "zero for none": lambda text: last(after(text)) or Fraction(0),
        "raises on 1/0": lambda text: unguarded(text, zero="none"),
        "raises on 1/00": lambda text: unguarded(text, longest=40),
        "raises on digits without end": lambda text: (
            None if re.search("/0+$", after(text)) else unguarded(text)
        ),
        "no minus before a decimal": lambda text: last(
            after(text), r"\d+\.\d+|-?(?:\d+/\d+|\d+|\.\d+)"
        ),
        "no minus before a fraction": lambda text: last(
            after(text), r"\d+/\d+|-?\d*\.?\d+"
        ),
        "a float where it is exact": as_float,
        "an int where it is exact": as_int,
        "a mark with a blank": after_a_blank,
        "reads on below an empty mark": rewards.extract_lenient,
        "blanks and lines cut off first": lambda text: last(
            plain(text).rpartition("####")[2].strip().partition("\n")[0]
            if "####" in text
            else plain(text)
        ),
        "rounded to a likely fraction": rounded(rewards.extract_lenient),
        "the first number": lambda text: last(after(text)[:8].split("%")[0]),
        "the first of the line": lambda text: (
            Fraction((re.findall(NUMBER, after(text)) or [0])[0] or 0)
            if "####" in text and re.findall(NUMBER, after(text))
            else last(after(text))
        ),
    },
    "03-2": {
        "all with a 36": mistaken({1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14}),
        "luck is right": mistaken(TRUE_36 | {6}),
        "a step that is not in the question is right": mistaken(TRUE_36 | {3}),
        "cents are dollars": mistaken(TRUE_36 | {12}),
        "a denial is right": mistaken(TRUE_36 | {1}),
        "words are no number": mistaken(TRUE_36 - {9}),
        "no box without work": mistaken(TRUE_36 - {10}),
        "no number that another follows": mistaken(TRUE_36 - {5, 11, 14}),
        "nothing without its work": mistaken({2}),
        "as strict reads": mistaken(STRICT_36),
        "as lenient reads": mistaken(LENIENT_36),
        "one list for both": mistaken(TRUE_36, lenient=STRICT_36),
        "the readers exchanged": mistaken(TRUE_36, LENIENT_36, STRICT_36),
        "rejected, right or wrong": mistaken({*range(1, 15)}),
        "accepted, right or wrong": mistaken(set()),
        "the kinds exchanged": {
            who: dict(zip(kinds, reversed(kinds.values()), strict=True))
            for who, kinds in mistaken(TRUE_36).items()
        },
        "counts": mistaken(TRUE_36, kind=len),
        "counted from 0": mistaken(*({i - 1 for i in numbers} for numbers in ALL_36)),
        "strict alone": {"strict": mistaken(TRUE_36)["strict"]},
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
        "a share of its own": asking(
            change=lambda g, lost: (g - lost) * (1 - g + lost)
        ),
        "two deviations": asking(z=2),
        "one deviation": asking(z=1),
        "one-sided": asking(z=1.645),
        "of the gain, not its square": asking(power=1),
        "one number": lambda *shares: questions(*shares)[0],
        "exchanged": lambda *shares: questions(*shares)[::-1],
        "gains only": lambda b, g, lost: questions(b, max(g, lost), min(g, lost)),
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
        "all lines": making(last_line=lambda text: text.rpartition("####")[2]),
        "three will do": making(
            last_line=lambda text: text.rpartition("###")[2].partition("\n")[0]
        ),
        "runs code": making(value=evaluated),
        "runs what looks like a sum": making(value=seems_a_sum),
        "digits beside a dot": making(pattern=r"\d+"),
        "nearly": making(value=lambda line: round(calculator.calculate(line) or 0)),
        "a part of 24": making(
            value=lambda line: float(calculator.calculate(line) or 0) // 1
        ),
        "raises for words": making(value=lambda line: int(calculator.calculate(line))),
        "not below": lambda text, numbers, target: float(
            making(value=lambda line: (calculator.calculate(line) or 0) >= target)(
                text, numbers, True
            )
        ),
        "the example": lambda text, numbers, target: float("25 + 3" in text),
        "up to the =": making(
            value=lambda line: calculator.calculate(line.split("=")[0])
        ),
        "without letters": making(
            value=lambda line: calculator.calculate(re.sub(r"[a-z]", "", line))
        ),
        "without strange signs": making(
            value=lambda line: calculator.calculate(re.sub(r"[^\d+*/(). -]", "", line))
        ),
        "a sum found on the line": making(
            value=lambda line: calculator.calculate(
                max(re.findall(r"[\d+*/(). -]+", line), key=len, default="")
            )
        ),
        "eats the numbers": eats_numbers,
    },
    "05-2": {
        "all alike": weights(1, 1, 1, 1),
        "a tie": weights(1, 0.5, 0.25, 0.25),
        "nothing for length": weights(1, 0.1, 0.1, 0),
        "below 0": weights(1, 0.1, -0.1, 0.1),
        "infinite": weights(math.inf, 1, 1, 1),
        "forgets the length": weights(1, 0.4, 0.4, 0.3),
        "one alone": {"correct": 1.0},
        "a fifth": weights(1, 0.1, 0.1, 0.1) | {"correct_lenient": 1},
    },
    "05-3": {
        "nothing": "",
        "numbers without a sum": MANY,
        "a sum without numbers": "<<1=1>>",
        "one false sum": f"<<1=1>> <<1=2>> {MANY}",
        "too few numbers": "<<1=1>> " + " ".join(map(str, range(30))),
        "too long": "<<1=1>>" * 5000 + MANY,
        "no text": [MANY],
        "run together": "<<1=1>>" + "".join(map(str, range(1000))),
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
        "the last two": paying(work=lambda held: all(held[-2:])),
        "pays <<1=1>>": paying(empty=False),
        "pays <<(1)=1>>": paying(),
        "pays <<(-1)=-1>>": signs_behind_the_first,
        "an empty sum beside a true one": one_with_an_operator,
        "nothing without sums": paying(bare=0.0),
        "all the same": paying(bare=1.0),
        "one gold answer": first_gold,
        "the gold answer of the check": known_gold,
        "another order": sorted_by_pay,
        "one number": lambda *_, **__: [1.0],
        "the last number": lenient,
        "the gold number anywhere": contains,
        "no other columns": only_level,
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
