"""Self-checks of notebook 03: extraction, the checker's mistakes, pass@k, intervals."""

import itertools
import re
from fractions import Fraction

import numpy as np

from helpers.evaluation.intervals import wilson
from helpers.exercises.check import Check, judge, whole
from helpers.rewards.answers import MARK, annotations, extract_strict
from helpers.rewards.functions import correct
from helpers.tools.sums import calculate


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
        ("keep it before a currency sign", reads("#### -$18", -18)),
        ("read a fraction as one number", reads("#### 1/2", Fraction(1, 2))),
        ("be exact: 0.1 is a tenth", reads("#### 0.1", Fraction(1, 10))),
        (
            "be exact: 0.3333333 is no third",
            reads("#### 0.3333333", Fraction(3333333, 10**7)),
        ),
        ("stop before a unit", reads("#### 5% of it", 5)),
        ("take the last number where there is no ####", reads("Of 9, 7 are left", 7)),
        ("give None where there is no number", reads("I do not know.", None)),
        *_places(reads),
        (
            "give a Fraction, of whole numbers too: it is exact",
            lambda: all(isinstance(answer(f"#### {n}"), Fraction) for n in (12, 2.5)),
        ),
        (
            "know the mark without a blank behind it, too",
            reads("####12\nThat took 8 days.", 12),
        ),
        (
            "never raise: models write 1/0",
            lambda: [answer(text) for text in ("#### 1/0", "It is 1/0.", "", "####")],
        ),
        ("give None for 1/0, which is no number", reads("#### 1/0", None)),
        ("read the 5 of '#### not 1/0 but 5'", reads("#### not 1/0 but 5", 5)),
        (
            "read any number in any text",
            lambda: all(answer(text) == value for text, value in _numbers_in_texts()),
        ),
    )


def _places(reads):
    """Where in a text the number is looked for."""
    return (
        (
            "look at all lines where there is no ####",
            reads("It was a long day.\nOf 9, 7 are left.\nThat is all.", 7),
        ),
        (
            "stay on the line of the ####: '#### 12 apples', then 'She has 3 baskets.'",
            reads("#### 12 apples\nShe has 3 baskets.", 12),
        ),
        ("take the last number of that line", reads("#### 18 + 18 = 36", 36)),
        ("read .75 as three quarters", reads("#### .75", Fraction(3, 4))),
        ("look at the last #### of several", reads("#### 3\nNo.\n#### 4\nYes.", 4)),
        (
            "not take a heading, ###, for the mark",
            reads("#### 12\n### 2 things to check", 12),
        ),
        ("give None where no number follows the ####", reads("#### none", None)),
        (
            "give None where the line of the #### is empty: what is below is chatter",
            reads("#### \nThat took 8 days.", None),
        ),
        ("read all digits below the line of 1/12", reads("#### 1/12", Fraction(1, 12))),
    )


def _numbers_in_texts():
    """(text, the number that it answers), of many sizes; others stand around it."""
    rng = np.random.default_rng(3)
    for number in rng.integers(-99, 10**7, 20).tolist():
        yield f"He has <<2+3=5>>5.\n#### {number:,} km\nThat took 8 days.", number
        yield f"After 8 days he has ${number:,}.", number


def check_mistakes(answer, gold) -> Check:
    """Three texts with the learner's verdict, which `correct` does not share."""

    def accepted(text):
        return correct([""], [text], answer=[gold])[0] == 1.0

    return judge(
        ("be three pairs of a text and a verdict", lambda: len(answer) == 3),
        (
            "have verdicts that are True or False",
            lambda: all(isinstance(right, bool) for _, right in answer),
        ),
        (
            "be three different texts, by more than blanks",
            lambda: len({" ".join(t.split()) for t, _ in answer}) == 3,
        ),
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
            f"be honest: what you call right ends in {gold}, in digits or words, and "
            "says so plainly, in words of prices, sums and answers alone",
            lambda: all(_plainly_says(t, int(gold)) for t, right in answer if right),
        ),
        (
            "be honest: what you call wrong has a false sum between << and >>, or two "
            "#### lines with different numbers",
            lambda: all(_is_wrong(t) for t, right in answer if not right),
        ),
    )


_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ONES = "one two three four five six seven eight nine".split()
_SPOKEN = re.compile(rf"\b({'|'.join(_TENS)})(?:[ -]({'|'.join(_ONES)}))?\b")
# Whatever takes a number back is said in other words than these; "each" is, too, unless
# it is said of 18.
_PLAIN = frozenset(
    """a all altogether amount and answer are as at be both buck bucks buy buys by come
    comes cost costing costs dollar dollars double eighteen end equal equals final
    follows for get gets give gives has have hence her him his i in is it it's its
    make makes multiply must need needs of on one paid pay pays person plus price
    prices result she he so spend spends sum that that's the them then there
    therefore these they this those thus ticket tickets times to together total
    twice two us usd was we were which will with would you your""".split()
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_EACH = re.compile(
    r"(?:\$?18 (?:dollars? )?each|each (?:ticket )?(?:costs?|is) \$?18)\b"
)
_SIGNS = re.compile(r"[^\w\s$.,:;!+*×/()<>=#’'-]|\d!|_")
# The number is a part of a sum that is left to the reader, or one of a list.
_FACTOR = re.compile(
    r"(?:\b(?:twice|double|times)\s+(?:of\s+)?|[-+*/]\s*|\d\s*,\s*)\$?$"
)
_MULTIPLE = re.compile(r"\s*(?:(?:times|squared)\b|[-+*/])")


# What is said of one ticket is not said of two, and two numbers are not one.
_ONE = re.compile(
    r"\b(?:one|(?:a|one|1|the|this) ticket) (?:[a-z]+ ){0,3}\$?(\d+)\b"
    r"|\b(\d+) (?:dollars? |\$ )?(?:a|per|for a|for one) ticket\b"
)
_PAIR = re.compile(r"\bboth\s+\$?\d+(?:\.\d+)?\s+and\b")
_SUM = re.compile(r"(\d[\d\s.]*[-+*/][\d\s.+*/()-]*)=\s*\$?(\d+(?:\.\d+)?)")


def _false_sum(text):
    """Whether a sum in a text, <<…>> or not, does not come to what it says."""
    return any(
        calculate(left) not in (None, Fraction(right))
        for left, right in _SUM.findall(text.replace("$", ""))
    )


def _plainly_says(text, gold):
    """Whether the last number of a text, the 2 tickets aside, is the gold one."""

    def digits(spoken):
        ten, one = spoken.groups()
        return str(10 * _TENS.index(ten) + 20 + (_ONES.index(one) + 1 if one else 0))

    plain = _SPOKEN.sub(digits, re.sub(r"(?<=\d),(?=\d)", "", text.lower()))
    words = _WORD.findall(_EACH.sub("", plain))
    if not {*words} <= _PLAIN or _SIGNS.search(text):
        return False
    if any(str(gold) in found for found in _ONE.findall(plain)):
        return False
    if _PAIR.search(plain) or _false_sum(plain):
        return False
    plain = re.sub(r"\b(?:2|two) tickets?\b", "", plain)
    numbers = re.finditer(r"(?<![\d.])-?\d+(?:\.\d+)?(?:/[1-9]\d*)?", plain)
    *_, last = [None, *numbers]
    if last is None or Fraction(last[0]) != gold or not all(annotations(text)):
        return False
    before, after = plain[: last.start()], plain[last.end() :]
    return not (_FACTOR.search(before) or _MULTIPLE.match(after))


def _is_wrong(text):
    """Whether a sum that is shown does not hold, or two lines answer differently."""
    for left, right in re.findall(r"<<([^<>=]+)=([^<>=]+)>>", text):
        computable = calculate(left) is not None and calculate(right) is not None
        if computable and annotations(f"<<{left}={right}>>") == [False]:
            return True
    answers = {extract_strict(MARK + part) for part in text.split(MARK)[1:]}
    return len(answers - {None}) > 1


def check_pass_at_k(answer) -> Check:
    """The chance that k of n sampled answers hold a right one."""

    def by_hand(n, c, k):
        picks = list(itertools.combinations([1] * c + [0] * (n - c), k))
        return sum(map(any, picks)) / len(picks)

    def near(n, c, k, value):
        return abs(answer(n, c, k) - value) < 1e-9

    def one_by_one(n, c, k):
        """The same without counting: one answer is drawn after another."""
        all_wrong = 1.0
        for drawn in range(k):
            all_wrong *= max(n - c - drawn, 0) / (n - drawn)
        return 1 - all_wrong

    large = [(40, 3, 10), (100, 1, 50), (64, 60, 4), (200, 7, 100), (30, 30, 30)]
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
        (
            "be right for many answers as well",
            lambda: all(near(*case, one_by_one(*case)) for case in large),
        ),
    )


def check_questions_needed(answer) -> Check:
    """How many questions bring the 95% interval of 50% down to ±2 points."""

    def half_width(n):
        low, high = wilson(int(n) // 2, int(n))
        return (high - low) / 2

    return judge(
        ("be a whole number", lambda: whole(answer)),
        ("be enough for ±2 points at 50%", lambda: half_width(int(answer)) < 0.0201),
        ("be no more than needed, within 5%", lambda: half_width(answer / 1.05) > 0.02),
    )
