"""Self-checks of notebook 03: extraction, two readers' mistakes, how many questions."""

from fractions import Fraction

import numpy as np

from helpers.evaluation.intervals import wilson
from helpers.exercises.check import Check, check_properties, whole
from helpers.rewards.answers import extract_lenient, extract_strict

# What an extractor should do, and texts with the numbers that they answer.
_READINGS = {
    "read the number after ####": {"So <<5+7=12>>12.\n#### 12": 12},
    "read 1,000 as one number": {"#### 1,000": 1000},
    "ignore a currency sign, keep the cents": {"#### $18.50": Fraction(37, 2)},
    "keep a minus sign, the typographic one and one before a currency sign too": (
        {"#### -3": -3, "#### −3": -3, "#### -$18": -18, "#### -1/2": Fraction(-1, 2)}
    ),
    "be exact: 0.1 is a tenth, .75 three quarters, and 0.3333333 is no third": (
        {"#### 0.1": Fraction(1, 10), "#### .75": Fraction(3, 4)}
        | {"#### 0.3333333": Fraction(3333333, 10**7)}
    ),
    "take the last number of all lines where there is no ####": (
        {"It was a long day.\nOf 9, 7 are left.\nThat is all.": 7}
    ),
    "take the last number on the line of the last ####; ### is a heading": (
        {"#### 12 apples\nShe has 3 baskets.": 12, "#### 18 + 18 = 36": 36}
        | {"#### 3\nNo.\n#### 4\nYes.": 4, "#### 12\n### 2 things to check": 12}
        | {"####12\nThat took 8 days.": 12}
    ),
    "give None where there is no number, or none on the line of the ####": (
        {"I do not know.": None, "": None, "#### none": None, "#### 1/00": None}
        | {"#### \nThat took 8 days.": None}
    ),
}


def check_extract(answer) -> Check:
    """Reading the number an answer ends in, as people and models write it."""
    rng = np.random.default_rng(3)
    random_texts = {}
    for number in rng.integers(-99, 10**7, 20).tolist():
        random_texts[f"<<2+3=5>>5.\n#### {number:,} km\nThat took 8 days."] = number
        random_texts[f"After 8 days he has ${number:,}."] = number
    readings = {**_READINGS, "read any number in any text": random_texts}
    numbers = {
        text: value for texts in readings.values() for text, value in texts.items()
    }
    properties = {
        phrase: [(text,) for text in texts] for phrase, texts in readings.items()
    }
    properties["give a Fraction, of whole numbers too: it is exact"] = lambda: all(
        isinstance(answer(f"#### {n}"), Fraction) for n in (12, 2.5)
    )
    properties["never raise: models write digits without end"] = lambda: [
        answer(text + "9" * 5000) for text in ("#### ", "#### 1/")
    ]
    return check_properties(properties, answer, numbers.get)


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
    right = {number for number, (_, is_right) in enumerate(_ANSWERED, 1) if is_right}
    accepts = {
        name: {number for number, text in ANSWERS.items() if read(text) == GOLD}
        for name, read in (("strict", extract_strict), ("lenient", extract_lenient))
    }

    def listed(kind):
        return set().union(*(answer[name][kind] for name in accepts))

    properties = {
        "have both kinds for both readers": lambda: (
            {*answer} == {*accepts}
            and all({*kinds} == {*KINDS} for kinds in answer.values())
        ),
        f"name the answers by their numbers, 1 to {len(ANSWERS)}": lambda: all(
            listed(kind) <= {*ANSWERS} for kind in KINDS
        ),
        "list only what that reader rejects, and only what it accepts": lambda: all(
            not accepts[name] & {*answer[name][KINDS[0]]}
            and accepts[name] >= {*answer[name][KINDS[1]]}
            for name in accepts
        ),
    }
    for name, accepted in accepts.items():
        for kind, truth in zip(
            KINDS, (right - accepted, accepted - right), strict=True
        ):
            phrase = f"miss none under {name}, '{kind}': read the others once more"
            properties[phrase] = lambda name=name, kind=kind, truth=truth: (
                {*answer[name][kind]} == truth
            )
    return check_properties(properties)


def check_questions_needed(answer) -> Check:
    """How many questions bring the 95% interval of 50% down to ±2 points."""

    def half_width(n):
        low, high = wilson(int(n) // 2, int(n))
        return (high - low) / 2

    properties = {
        "be a whole number": lambda: whole(answer),
        "be enough for ±2 points at 50%": lambda: half_width(int(answer)) < 0.0201,
        "be no more than needed, within 5%": lambda: half_width(answer / 1.05) > 0.02,
    }
    return check_properties(properties)


def check_needed(answer) -> Check:
    """Questions that show a gain: with two sets of questions, and with one for both."""
    gains = [(0.5, 0.1, 0.05), (0.114, 0.33, 0.03), (0.3, 0.06, 0.02), (0.6, 0.2, 0.04)]
    losses = [(0.416, 0.0, 0.044), (0.5, 0.05, 0.1), (0.35, 0.02, 0.21)]

    def needed(before, gained, lost):
        change, after = gained - lost, before + gained - lost
        apart = before * (1 - before) + after * (1 - after)
        paired = gained + lost - change**2
        return [1.96**2 * variance / change**2 for variance in (apart, paired)]

    def near(case, which):
        value, truth = answer(*case)[which], needed(*case)[which]
        return abs(value - truth) <= max(1.0, 1e-3 * truth)  # rounded up, perhaps

    properties = {
        "put the spread of both runs into the first: each has its own questions": (
            lambda: all(near(case, 0) for case in gains)
        ),
        "look, for the second, at what a question changes by: 1, -1 or 0": lambda: all(
            near(case, 1) for case in gains
        ),
        "work for losses": lambda: all(
            near(case, which) for case in losses for which in (0, 1)
        ),
    }
    return check_properties(properties)
