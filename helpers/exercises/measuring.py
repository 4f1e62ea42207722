"""Self-checks of notebook 03: extraction, the checker's mistakes, pass@k, intervals."""

import itertools
from fractions import Fraction

from helpers.evaluation.intervals import wilson
from helpers.exercises.check import Check, judge
from helpers.rewards.answers import MARK, annotations
from helpers.rewards.functions import correct


def check_extract(answer) -> Check:
    """Reading the number an answer ends in, as people and models write it."""

    def reads(text, value):
        return lambda: answer(text) == value

    return judge(
        ("read the number after ####", reads("He pays <<5+7=12>>12.\n#### 12", 12)),
        ("read 1,000 as one number", reads("#### 1,000", 1000)),
        (
            "ignore a currency sign, keep the cents",
            reads("#### $18.50", Fraction(37, 2)),
        ),
        ("not trip over a full stop", reads("The answer is 18.", 18)),
        ("keep a minus sign", reads("#### -3", -3)),
        ("know the typographic minus as well", reads("#### −3", -3)),
        ("read a fraction as one number", reads("#### 1/2", Fraction(1, 2))),
        ("be exact: 0.1 is a tenth", reads("#### 0.1", Fraction(1, 10))),
        ("stop before a unit", reads("#### 5% of it", 5)),
        ("take the last number where there is no ####", reads("Of 9, 7 are left", 7)),
        ("give None where there is no number", reads("I do not know.", None)),
    )


def check_mistakes(answer, gold) -> Check:
    """Three texts with the learner's verdict, which `correct` does not share."""

    def accepted(text):
        return correct([""], [text], answer=[gold])[0] == 1.0

    def honest(text, right):
        numbers = text.lower().replace(",", "")
        if right:
            return gold in numbers or _in_words(int(gold)) in numbers.replace("-", " ")
        return not all(annotations(text)) or text.count(MARK) > 1

    return judge(
        ("be three pairs of a text and a verdict", lambda: len(answer) == 3),
        (
            "have verdicts that are True or False",
            lambda: all(isinstance(right, bool) for _, right in answer),
        ),
        ("be three different texts", lambda: len({t for t, _ in answer}) == 3),
        (
            "hold three texts on which the checker and you disagree",
            lambda: all(accepted(text) != right for text, right in answer),
        ),
        (
            "hold a text that is right and rejected",
            lambda: any(right for _, right in answer),
        ),
        (
            "hold a text that is wrong and accepted",
            lambda: not all(right for _, right in answer),
        ),
        (
            f"be honest: what you call right says {gold}, in digits or words; what you "
            "call wrong has a false sum between << and >>, or two #### lines",
            lambda: all(honest(text, right) for text, right in answer),
        ),
    )


def _in_words(number):
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    ones = "one two three four five six seven eight nine".split()
    ten, one = divmod(number, 10)
    return f"{tens[ten - 2]} {ones[one - 1]}" if one else tens[ten - 2]


def check_pass_at_k(answer) -> Check:
    """The chance that k of n sampled answers hold a right one."""

    def by_hand(n, c, k):
        picks = list(itertools.combinations([1] * c + [0] * (n - c), k))
        return sum(map(any, picks)) / len(picks)

    def near(n, c, k, value):
        return abs(answer(n, c, k) - value) < 1e-9

    cases = [
        (n, c, k) for n in range(1, 7) for c in range(n + 1) for k in range(1, n + 1)
    ]
    return judge(
        ("be 0 when no answer is right", lambda: near(8, 0, 4, 0)),
        ("be the share of right ones for k = 1", lambda: near(8, 3, 1, 3 / 8)),
        ("be 1 when all n are handed in and one is right", lambda: near(8, 1, 8, 1)),
        ("be 1 when fewer than k are wrong", lambda: near(8, 6, 3, 1)),
        (
            "draw without putting back: 1 right of 2, both handed in",
            lambda: near(2, 1, 2, 1),
        ),
        (
            "equal a count of all ways to pick k of n",
            lambda: all(near(*case, by_hand(*case)) for case in cases),
        ),
    )


def check_questions_needed(answer) -> Check:
    """How many questions bring the 95% interval of 50% down to ±2 points."""

    def half_width(n):
        low, high = wilson(int(n) // 2, int(n))
        return (high - low) / 2

    return judge(
        ("be a whole number", lambda: answer == int(answer)),
        ("be enough for ±2 points at 50%", lambda: half_width(int(answer)) < 0.0201),
        ("be no more than needed, within 5%", lambda: half_width(answer / 1.05) > 0.02),
    )
