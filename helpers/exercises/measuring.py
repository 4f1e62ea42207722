"""Self-checks of notebook 03: extraction, and how many questions a score needs."""

import math
from fractions import Fraction

import numpy as np

from helpers.exercises.check import Check, check_properties, texts


def check_extract(answer) -> Check:
    """Reading the number an answer ends in, as people and models write it."""
    numbers = {}
    for number in np.random.default_rng(3).integers(-99, 10**7, 20).tolist():
        numbers[f"<<2+3=5>>5.\n#### {number:,} km\nThat took 8 days."] = str(number)
        numbers[f"After 8 days he has ${number:,}."] = str(number)
    readings = texts("extract") | {"read any number in any text": numbers}
    truth = {}
    for written in readings.values():
        for text, number in written.items():
            truth[text] = None if number == "none" else Fraction(number)
    properties = {phrase: [(text,) for text in x] for phrase, x in readings.items()}
    properties["give a Fraction, of whole numbers too: it is exact"] = lambda: all(
        isinstance(answer(f"#### {n}"), Fraction) for n in (12, 2.5)
    )
    properties["never raise: models write digits without end"] = lambda: [
        answer(text + "9" * 5000) for text in ("#### ", "#### 1/")
    ]
    return check_properties(properties, answer, truth.get)


def check_questions_needed(answer) -> Check:
    """How many questions know a share to within ± half, at 95%."""
    rng = np.random.default_rng(4)
    cases = zip(rng.uniform(0.01, 0.99, 40), rng.uniform(0.005, 0.2, 40), strict=True)

    def needed(p, half):
        return math.ceil((1.96 / half) ** 2 * p * (1 - p))

    properties = {
        "know 50% to ±3 points, with as few questions as that takes": [(0.5, 0.03)],
        "ask four times as many for half the width": [(0.5, 0.03), (0.5, 0.015)],
        "ask fewer where the share is near 0 or 1": [(0.04, 0.03), (0.9, 0.03)],
        "be a whole number, rounded up, for any share and width": list(cases),
    }
    return check_properties(properties, answer, needed)
