"""Self-checks of notebook 15: the rank that fits, and a reward."""

import re

import numpy as np

from helpers.exercises.check import Check, check_properties, texts
from helpers.rewards import annotations, extract_strict


def check_largest_rank(answer) -> Check:
    """The largest rank of LoRA that a chip's memory holds beside the frozen model."""
    rng, cases = np.random.default_rng(15), [([(100, 60)], 1e9)]  # plenty of room
    for count in (1, 2, 3, 4, 5):
        matrices = [tuple(shape) for shape in rng.integers(8, 200, (count, 2)).tolist()]
        for rank in (1, 2, 7, 64):  # that just fits the chip, and just does not
            chips = (needed(matrices, rank) / 0.9 * share for share in (1.0001, 0.9999))
            cases += [(matrices, chip) for chip in chips]

    def largest(matrices, chip):
        fits = [rank for rank in range(1, 65) if needed(matrices, rank) <= 0.9 * chip]
        return max(fits, default=None)

    properties = {
        "be None where the frozen model takes more than there is": [
            ([(100, 60)], 12_000)
        ],
        "count 2 bytes for a frozen number and 16 for a trained one: it, its gradient "
        "and two means, in float32": [([(100, 60)], 60_000)],
        "be right for other models and chips, up to a rank of 64": cases,
    }
    return check_properties(properties, answer, largest)


def needed(matrices, rank):
    """Bytes of the frozen matrices and of what is trained beside them."""
    return sum(2 * r * c + 16 * rank * (r + c) for r, c in matrices)


def check_sum_is_used(answer) -> Check:
    """A reward that pays for a sum only where its value is what is answered."""
    rng, others = np.random.default_rng(15), []
    for a, b, c, kind in rng.integers(2, 30, (20, 4)).tolist():
        first, last = f"<<{a}*{b}={a * b}>>", f"<<{a * b}+{c}={a * b + c}>>"
        number = (a * b + c, a * b, a * b + c + 1)[kind % 3]
        others.append(f"{first}{a * b}, and {last}.\n#### {number}")

    def used(text):
        *_, (left, value) = re.findall(r"<<([^<>=]*)=([^<>=]*)>>", text) or [("", "")]
        computes = all(annotations(text)) and re.search(r"[\d)]\s*[-+*/]", left)
        return float(
            bool(computes) and extract_strict(text) == extract_strict(f"####{value}")
        )

    readings = texts("sum_is_used") | {"be right for other sums and numbers": others}
    properties = {phrase: [(text,) for text in x] for phrase, x in readings.items()}
    return check_properties(properties, answer, used)
