"""Self-checks of notebook 03: extraction, two readers' mistakes, how many questions."""

from fractions import Fraction

import numpy as np

from helpers.evaluation.intervals import wilson
from helpers.exercises.check import Check, check_properties, texts, whole
from helpers.rewards.answers import extract_lenient, extract_strict


def check_extract(answer) -> Check:
    """Reading the number an answer ends in, as people and models write it."""
    rng = np.random.default_rng(3)
    readings, others = texts("extract"), {}
    for number in rng.integers(-99, 10**7, 20).tolist():
        others[f"<<2+3=5>>5.\n#### {number:,} km\nThat took 8 days."] = number
        others[f"After 8 days he has ${number:,}."] = number
    readings |= {"read any number in any text": others}
    numbers = {
        text: None if number == "none" else Fraction(number)
        for reading in readings.values()
        for text, number in reading.items()
    }
    properties = {phrase: [(text,) for text in x] for phrase, x in readings.items()}
    properties["give a Fraction, of whole numbers too: it is exact"] = lambda: all(
        isinstance(answer(f"#### {n}"), Fraction) for n in (12, 2.5)
    )
    properties["never raise: models write digits without end"] = lambda: [
        answer(text + "9" * 5000) for text in ("#### ", "#### 1/")
    ]
    return check_properties(properties, answer, numbers.get)


GOLD = 36
ANSWERS = dict(enumerate(texts("mistakes")["answers"], 1))
KINDS = ("right, rejected", "wrong, accepted")


def check_mistakes(answer) -> Check:
    """Which of ANSWERS each reader rejects though right, and accepts though wrong."""
    right = set(texts("mistakes")["right"])
    accepts = {
        name: {number for number, text in ANSWERS.items() if read(text) == GOLD}
        for name, read in (("strict", extract_strict), ("lenient", extract_lenient))
    }

    properties = {
        "have both kinds for both readers": lambda: (
            {*answer} == {*accepts}
            and all({*kinds} == {*KINDS} for kinds in answer.values())
        ),
        "list only what that reader rejects, and only what it accepts": lambda: all(
            not accepts[name] & {*answer[name][KINDS[0]]}
            and accepts[name] >= {*answer[name][KINDS[1]]}
            for name in accepts
        ),
    }
    for name, accepted in accepts.items():
        truths = right - accepted, accepted - right
        for kind, truth in zip(KINDS, truths, strict=True):
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
        "be enough for ±2 points at 50%": lambda: (
            whole(answer) and half_width(answer) < 0.0201
        ),
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
            near(case, 0) and near(case, 1) for case in losses
        ),
    }
    return check_properties(properties)
