"""Self-checks of notebook 15: a rank, a false row, a reward, disconnects."""

import re

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, texts
from helpers.rewards import annotations, extract_strict
from helpers.tasks import custom_rows


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


QUESTION = "Mia has 2 pens and buys 3 more. How many pens does Mia have?"


def check_false_row(row) -> Check:
    """A row in good form whose answer is wrong."""
    properties = {
        "be filled in": filled(row, what="a row"),
        "have a question, an answer and a number, all of them text": lambda: (
            set(row) == {"question", "answer", "number"}
            and all(isinstance(text, str) for text in row.values())
        ),
        "pass the reader, with an answer that ends in #### and a number": lambda: (
            len(custom_rows.check([row], gold=extract_strict).rows) == 1
        ),
        "ask what the exercise asks, and have its right number": lambda: (
            row["question"].strip() == QUESTION
            and extract_strict(f"#### {row['number']}") == 5
        ),
        "teach another number than 5": lambda: extract_strict(row["answer"]) != 5,
    }
    return check_properties(properties)


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


def check_computed(answer) -> Check:
    """All steps that the sessions of a run compute, from checkpoint to checkpoint."""
    rng, cases = np.random.default_rng(15), []
    for _ in range(60):
        steps, every = map(int, rng.integers(1, (30, 8)))
        ends = np.sort(rng.integers(1, steps + 1, rng.integers(0, 4)))
        cases.append((steps, every, ends.tolist()))

    def computed(steps, every, pulled):
        """Step by step, with the last checkpoint that is written."""
        done, written = [], 0
        for last in [*pulled, steps]:
            for step in range(written + 1, last + 1):
                done.append(step)
                written = step if step % every == 0 else written
        return done

    properties = {
        "be each step once where nothing interrupts": [(5, 2, [])],
        "go on behind the last checkpoint, and repeat what came after": [(12, 3, [7])],
        "begin anew where nothing was written yet": [(6, 4, [3])],
        "be right for any run": cases,
    }
    return check_properties(properties, lambda *run: [*answer(*run)], computed)
