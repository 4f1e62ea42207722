"""Self-checks of notebook 03: extraction, two readers' mistakes, how many questions."""

from fractions import Fraction

import numpy as np

from helpers.evaluation.intervals import wilson
from helpers.exercises.check import Check, check_properties, whole
from helpers.rewards.answers import extract_lenient, extract_strict

HARD_TEXTS = ["", "####", "#### 1/0", "It is 1/0.", "#### 1/00", "#### 0/0", "#### -"]
HARD_TEXTS += ["#### " + "9" * 5000, "#### 1/" + "9" * 5000]


def check_extract(answer) -> Check:
    """Reading the number an answer ends in, as people and models write it."""

    def reads(text, value):
        return lambda: answer(text) == value

    return check_properties(
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
        ("keep the minus of a decimal", reads("#### -2.5", Fraction(-5, 2))),
        ("keep the minus of a fraction", reads("#### -1/2", Fraction(-1, 2))),
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
            "never raise: models write 1/0, 1/00, and digits without end",
            lambda: [answer(text) for text in HARD_TEXTS],
        ),
        (
            "give None for 1/0 and 1/00, which are no numbers",
            lambda: answer("#### 1/0") is None is answer("#### 1/00"),
        ),
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


GOLD = 36
# "A ticket costs $18. What do 2 tickets cost?", answered; and whether it is right.
_ANSWERED = (
    ("18 + 18 = 34, and not 36.", False),
    ("They cost <<18+18=36>>36 dollars.\n#### 36", True),
    ("The second is free, but a fee of 18 is due: <<18+18=36>>36.\n#### 36", False),
    ("The answer is **36**.", True),
    ("#### 36 dollars for 2 tickets", True),
    ("<<18+2=20>>20, so <<20*2=36>>36.\n#### 36", False),
    ("#### $36.00\n\nQuestion: Tom has 5 apples and eats 2.", True),
    ("At 36 each, both cost <<36+36=72>>72.\n#### 72", False),
    ("They cost thirty-six dollars.", True),
    (r"\boxed{36}", True),
    ("$36 (2 x $18)", True),
    ("<<2*18=36>>36\n#### 36 cents", False),
    ("Eighteen twice is thirty-four.", False),
    ("The total is $36, or $18 for each.", True),
)
ANSWERS = {number: text for number, (text, _) in enumerate(_ANSWERED, 1)}
KINDS = ("right, rejected", "wrong, accepted")


def check_mistakes(answer) -> Check:
    """Which of ANSWERS each reader rejects though right, and accepts though wrong."""
    right = {number for number, (_, holds) in enumerate(_ANSWERED, 1) if holds}
    read = {"strict": extract_strict, "lenient": extract_lenient}
    accepts = {
        who: {number for number, text in ANSWERS.items() if reads(text) == GOLD}
        for who, reads in read.items()
    }

    def called(kind):
        return set().union(*(answer[who][kind] for who in read))

    return check_properties(
        (
            "say, for strict and for lenient, which answers are 'right, rejected' "
            "and which 'wrong, accepted'",
            lambda: {*answer} == {*read} and all({*a} == {*KINDS} for a in _of(answer)),
        ),
        (
            f"name the answers by their numbers, 1 to {len(ANSWERS)}",
            lambda: all(
                whole(*numbers) and {*numbers} <= {*ANSWERS}
                for kinds in _of(answer)
                for numbers in kinds.values()
            ),
        ),
        (
            "call no answer right in one place and wrong in another",
            lambda: not called(KINDS[0]) & called(KINDS[1]),
        ),
        (
            "list as rejected only what that reader rejects",
            lambda: not any(accepts[who] & {*answer[who][KINDS[0]]} for who in read),
        ),
        (
            "list as accepted only what that reader accepts",
            lambda: all(accepts[who] >= {*answer[who][KINDS[1]]} for who in read),
        ),
        *_reads_well(answer, called, right),
        *_misses_none(answer, right, accepts),
    )


def _of(answer):
    """What is said of each reader."""
    return answer.values()


def _reads_well(answer, called, right):
    """The learner's own reading, whatever the two readers make of it."""
    return (
        (
            "call right only what gives 36 dollars, by steps that are all true: one of "
            "those you call right does not",
            lambda: called(KINDS[0]) <= right,
        ),
        (
            "call wrong only what gives another price or takes a false step: one of "
            "those you call wrong does neither",
            lambda: not called(KINDS[1]) & right,
        ),
    )


def _misses_none(answer, right, accepts):
    """Nothing is left out."""
    for who, accepted in accepts.items():
        for kind, numbers in zip(
            KINDS, (right - accepted, accepted - right), strict=True
        ):
            yield (
                f"miss none under {who}, '{kind}': read the others once more",
                lambda who=who, kind=kind, numbers=numbers: (
                    {*answer[who][kind]} == numbers
                ),
            )


def check_questions_needed(answer) -> Check:
    """How many questions bring the 95% interval of 50% down to ±2 points."""

    def half_width(n):
        low, high = wilson(int(n) // 2, int(n))
        return (high - low) / 2

    return check_properties(
        ("be a whole number", lambda: whole(answer)),
        ("be enough for ±2 points at 50%", lambda: half_width(int(answer)) < 0.0201),
        ("be no more than needed, within 5%", lambda: half_width(answer / 1.05) > 0.02),
    )


def check_needed(answer) -> Check:
    """Questions that show a gain: with two sets of questions, and with one for both."""

    def near(case, which):
        given, true = answer(*case)[which], _needed(*case)[which]
        return abs(given - true) <= max(1.0, 1e-3 * true)

    gains = [(0.5, 0.1, 0.05), (0.114, 0.33, 0.03), (0.3, 0.06, 0.02), (0.6, 0.2, 0.04)]
    losses = [(0.416, 0.0, 0.044), (0.5, 0.05, 0.1), (0.35, 0.02, 0.21)]
    strangers = [(0.3, 0.35, 0.15), (0.2, 0.32, 0.12)]
    return check_properties(
        ("give two numbers", lambda: len(answer(*gains[0])) == 2),
        (
            "put the spread of both runs into the first: each has its own questions",
            lambda: all(near(case, 0) for case in gains),
        ),
        (
            "let the second be as large as the first where two runs differ as often as "
            "if they had nothing to do with each other: 30% right, 35% gained, 15% "
            "lost",
            lambda: all(near(case, 1) for case in strangers),
        ),
        (
            "look, for the second, at what a question changes by: 1, -1 or 0",
            lambda: all(near(case, 1) for case in gains),
        ),
        (
            "work for losses too",
            lambda: all(near(case, i) for case in losses for i in (0, 1)),
        ),
    )


def _needed(before, gained, lost, n=1000):
    """The same from two columns of 0 and 1: a thousand questions, before and after."""
    right, wins, losses = (round(n * share) for share in (before, gained, lost))
    first_N, second_N = np.zeros((2, n))
    first_N[:right] = second_N[losses : right + wins] = 1
    spreads = (first_N.var() + second_N.var(), (second_N - first_N).var())
    return [1.96**2 * s / (second_N - first_N).mean() ** 2 for s in spreads]
