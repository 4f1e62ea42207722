"""Notebooks 03 and 05: reading numbers, and what pays."""

import collections
import functools
import math
import re
from fractions import Fraction

from helpers import rewards
from helpers.exercises import rewards as checks
from helpers.tools import sums

NUMBER = r"-?(?:\d+(?:\.\d+|/\d+)?|\.\d+)"


def plain(text):
    return re.sub("[,$]", "", text.replace("−", "-"))


def last(part, pattern=NUMBER, value=Fraction):
    found = re.findall(pattern, part)
    return value(found[-1]) if found and not found[-1].endswith("/0") else None


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
    value=sums.calculate,
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
    return 1.0 if line and sums.calculate(line) == target else 0.0


def rounded(read):
    """A reader whose fractions were floats on the way."""

    def answer(text):
        value = read(text)
        return value if value is None else Fraction(float(value)).limit_denominator()

    return answer


RIGHT_TEXT = ("They cost thirty-six dollars.", True)
TWO_NUMBERS = ("#### 36 dollars for 2 tickets", True)
LUCKY = ("<<18+2=20>>20, so <<20*2=36>>36.\n#### 36", False)


def drawn(n, c, k):
    wrong = 1.0
    for i in range(k):
        wrong *= max(0, n - c - i) / (n - i)
    return 1 - wrong


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
        "raises on 1/0": lambda text: last(after(text), r"-?\d+(?:\.\d+|/\d+)?"),
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
        "another number": [RIGHT_TEXT, LUCKY, ("#### 136", True)],
        "a denial": [RIGHT_TEXT, LUCKY, ("The answer is not 36.", True)],
        "a denial cut short": [RIGHT_TEXT, LUCKY, ("It isn't 36.", True)],
        "a hedge": [RIGHT_TEXT, LUCKY, ("It is 35 or 36.", True)],
        "36 on the way": [RIGHT_TEXT, LUCKY, ("36 is half, so 72.", True)],
        "36 in a fraction": [RIGHT_TEXT, LUCKY, ("It is 1/36.", True)],
        "minus": [RIGHT_TEXT, LUCKY, ("It is -36.", True)],
        "36 and a word": [RIGHT_TEXT, LUCKY, ("#### 36 thousand", True)],
        "words, then others": [
            RIGHT_TEXT,
            LUCKY,
            ("Not thirty-six but thirty-five", True),
        ],
        "a false sum": [RIGHT_TEXT, LUCKY, ("<<18+18=35>> It costs 36.", True)],
        "twice the same line": [RIGHT_TEXT, TWO_NUMBERS, ("#### 36\n#### 36", False)],
        "no sum in the sum": [RIGHT_TEXT, TWO_NUMBERS, ("<<\n#### 36", False)],
        "a rude word": [RIGHT_TEXT, TWO_NUMBERS, ("<<x=y>>\n#### 36", False)],
        "a true sum": [RIGHT_TEXT, TWO_NUMBERS, ("<<18*2=36>>\n#### 36", False)],
        "numbers as verdicts": [("It is 36.", 1), TWO_NUMBERS, LUCKY],
        "more": [RIGHT_TEXT, LUCKY, ("More than 36.", True)],
        "a guess": [RIGHT_TEXT, LUCKY, ("Maybe 36.", True)],
        "about": [RIGHT_TEXT, LUCKY, ("It is about 36.", True)],
        "a half": [RIGHT_TEXT, LUCKY, ("Half of 36.", True)],
        "a dozen": [RIGHT_TEXT, LUCKY, ("They cost 36 dozen.", True)],
        "taken back": [RIGHT_TEXT, LUCKY, ("It would be 36, but one is free.", True)],
        "a range": [RIGHT_TEXT, LUCKY, ("Between 30 and 36.", True)],
        "twice as much": [RIGHT_TEXT, LUCKY, ("It is twice 36.", True)],
        "times": [RIGHT_TEXT, LUCKY, ("2 times $36", True)],
        "many times": [RIGHT_TEXT, LUCKY, ("They cost 36 times 2.", True)],
        "squared": [RIGHT_TEXT, LUCKY, ("It is thirty-six squared.", True)],
        "a factorial": [RIGHT_TEXT, LUCKY, ("It is 36!", True)],
        "both": [RIGHT_TEXT, LUCKY, ("The answer is both 18 and 36.", True)],
        "of one": [RIGHT_TEXT, LUCKY, ("A ticket costs $36.", True)],
        "of the ticket": [RIGHT_TEXT, LUCKY, ("The ticket costs 36 dollars.", True)],
        "of one of them": [RIGHT_TEXT, LUCKY, ("One costs 36.", True)],
        "a product to do": [RIGHT_TEXT, LUCKY, ("18*2*36", True)],
        "a sum to do": [RIGHT_TEXT, LUCKY, ("36 + 36", True)],
        "a list": [RIGHT_TEXT, LUCKY, ("35, 36", True)],
        "a price": [RIGHT_TEXT, LUCKY, ("Price: 36 $ a ticket", True)],
        "of one ticket": [RIGHT_TEXT, LUCKY, ("One ticket costs 36.", True)],
        "a false sum in words": [
            RIGHT_TEXT,
            LUCKY,
            ("18+18=35 so it costs 36", True),
        ],
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
        "puts back": lambda n, c, k: 1 - (1 - c / n) ** k,
        "all right": lambda n, c, k: math.comb(c, k) / math.comb(n, k),
        "the share": lambda n, c, k: c / n,
        "k times the share": lambda n, c, k: min(1, k * c / n),
        "none right": lambda n, c, k: math.comb(n - c, k) / math.comb(n, k),
        "k and c exchanged": lambda n, c, k: (
            1 - math.comb(n - c, c) / math.comb(n, k) if c else 0.0
        ),
        "any": lambda n, c, k: float(c > 0),
        "up to ten": lambda n, c, k: drawn(min(n, 10), min(c, 10), min(k, 10)),
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
        "nearly": making(value=lambda line: round(sums.calculate(line) or 0)),
        "a part of 24": making(
            value=lambda line: float(sums.calculate(line) or 0) // 1
        ),
        "raises for words": making(value=lambda line: int(sums.calculate(line))),
        "not below": lambda text, numbers, target: float(
            making(value=lambda line: (sums.calculate(line) or 0) >= target)(
                text, numbers, True
            )
        ),
        "the example": lambda text, numbers, target: float("25 + 3" in text),
        "up to the =": making(value=lambda line: sums.calculate(line.split("=")[0])),
        "without letters": making(
            value=lambda line: sums.calculate(re.sub(r"[a-z]", "", line))
        ),
        "without strange signs": making(
            value=lambda line: sums.calculate(re.sub(r"[^\d+*/(). -]", "", line))
        ),
        "a sum found on the line": making(
            value=lambda line: sums.calculate(
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
        "by split": lambda text: (
            last(plain(text).split("####")[-1].split("\n")[0])
            if "####" in text
            else last(plain(text))
        ),
    },
    "03-2": {
        "digits": [("That is 36 dollars.", True), ("18+18=36", True), LUCKY],
        "two lines": [RIGHT_TEXT, TWO_NUMBERS, ("#### 18\n#### 36", False)],
        "a product": [("Twice 18 is 36.", True), ("2 times 18 = 36", True), LUCKY],
        "would": [("They would cost 36 dollars.", True), ("18 × 2 = 36", True), LUCKY],
        "multiplied": [("We multiply 18 by 2 and get 36.", True), RIGHT_TEXT, LUCKY],
        "glad": [("Thirty-six!", True), ("They cost 36 dollars!", True), LUCKY],
        "words": [
            ("Thirty six.", True),
            ("#### thirty-six", True),
            ("<<1=2>>\n#### 36", False),
        ],
    },
    "03-3": {"exact": 2401, "rounded": 2450, "a float": 2401.0},
    "03-4": {
        "one by one": drawn,
        "exact": lambda n, c, k: float(
            1 - Fraction(math.comb(n - c, k), math.comb(n, k))
        ),
    },
    "05-1": {"one by one": making(), "taken away": taken_away},
    "05-2": {"large": weights(10, 3, 3, 3), "small": weights(0.5, 0.1, 0.1, 0.1)},
    "05-3": {
        "downwards": "<<2+2=4>> " + " ".join(map(str, reversed(range(1000)))),
        "lines": "\n".join(map(str, range(990))) + "\n<<1+1=2>>",
    },
    "05-4": {"operators": operators, "partial": functools.partial(operators)},
}
