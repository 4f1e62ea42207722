"""Self-checks of notebook 15: a rank, a false row, a reward, disconnects."""

import re

import numpy as np

from helpers.exercises.check import Check, check_properties, filled
from helpers.rewards import annotations, extract_strict
from helpers.tasks import custom_rows


def check_largest_rank(answer) -> Check:
    """The largest rank of LoRA that a chip's memory holds beside the frozen model."""
    rng = np.random.default_rng(15)
    models = [
        [tuple(shape) for shape in rng.integers(8, 200, (n, 2)).tolist()]
        for n in (1, 2, 3, 4, 5)
    ]

    def needed(matrices, rank):
        """Bytes of the frozen matrices and of what is trained beside them."""
        return sum(2 * r * c + 16 * rank * (r + c) for r, c in matrices)

    def largest(matrices, chip):
        fits = [rank for rank in range(1, 65) if needed(matrices, rank) <= 0.9 * chip]
        return max(fits, default=None)

    # Chips on which this rank just fits, and just does not.
    cases = [
        (matrices, needed(matrices, rank) / 0.9 * (1 + close))
        for matrices in models
        for rank in (1, 2, 7, 64)
        for close in (1e-4, -1e-4)
    ]
    one = [(100, 60)]
    properties = {
        "be 64 where there is plenty of room": [(one, 1e9)],
        "be None where the frozen model takes more than there is": [(one, 12_000)],
        "count 2 bytes for a frozen number and 16 for a trained one: it, its gradient "
        "and two means, in float32": [(one, 60_000)],
        "be right for other models and chips": cases,
    }
    return check_properties(properties, answer, largest)


ASKED = "Mia has 2 pens and buys 3 more. How many pens does Mia have?"


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
        "ask what the exercise asks": lambda: row["question"].strip() == ASKED,
        "have the right number, as your own reward needs it": lambda: (
            extract_strict(f"#### {row['number']}") == 5
        ),
        "teach another number than 5": lambda: extract_strict(row["answer"]) != 5,
    }
    return check_properties(properties)


# What the reward should do, and texts that show it.
_SUMS = {
    "pay 1.0 where the last sum gives the number": (
        ["Mia has <<2+3=5>>5 pens.\n#### 5", "It is <<2-7=-5>>-5 degrees.\n#### -5"]
        + ["<<4*6=24>>24, and <<24-4=20>>20.\n#### 20", "<<12/4=3>>3.\n#### 3"]
    ),
    "pay nothing where no sum is shown": ["#### 5", "", "2+3=5 pens.\n#### 5"],
    "pay nothing for a sum that is false, wherever it stands": (
        ["<<2+3=6>>6 pens.\n#### 6", "<<2+2=5>>5, no, <<2+3=5>>5 pens.\n#### 5"]
    ),
    "pay nothing for a sum whose value is not the number after ####": (
        ["<<2+3=5>>5, then <<5-1=4>>4.\n#### 5", "<<2+13=15>>15 pens.\n#### 5"]
        + ["<<2+3=5>>5.\n#### 15", "<<2+3=5>>5.\n#### none", "<<2+3=5>>5.\n### 5"]
        + ["<<2+3=5>>5 pens.\n#### 5\nNo:\n#### 4"]
    ),
    "pay nothing for a sum that computes nothing, such as <<5=5>>": (
        ["<<5=5>>\n#### 5", "<<1=1>>5 pens.\n#### 5", "<<-5=-5>>\n#### -5"]
        + ["<< +5=5>>\n#### 5", "<<(-5)=-5>>\n#### -5", "<<--5=5>>\n#### 5"]
        + ["<<-(-5)=5>>\n#### 5", "<<2+3=5>>5, so <<5=5>>5.\n#### 5"]
    ),
    "not be led astray by <, >, = and line breaks between the words": (
        ["<<2+3=5>>5 pens, so n = 5, and 9 > 5 < 6.\n#### 5", "<<1=1>> =5#### 5"]
        + ["Mia has <<2+3=5>>5 pens, 9 >> 5.\n#### 5", "<<1=1>>, n=5>>\n#### 5"]
        + ["#### 4\nNo: <<2+3=5>>5 pens.\n#### 5", "<<2+3=5>>5 pens.\n#### 5\n"]
        + ["<<500*2=1000>>1000 pens.\n#### 1,000", "<<(5)-(2)=3>>3 pens.\n#### 3"]
    ),
}


def check_sum_is_used(answer) -> Check:
    """A reward that pays for a sum only where its value is what is answered."""
    rng, texts = np.random.default_rng(15), []
    for a, b, c, kind in rng.integers(2, 30, (20, 4)).tolist():
        total = a * b + c
        first, last = f"<<{a}*{b}={a * b}>>", f"<<{a * b}+{c}={total}>>"
        number = (total, a * b, total + 1)[kind % 3]
        texts.append(f"{first}{a * b}, and {last}{total}.\n#### {number}")

    def used(text):
        sums = re.findall(r"<<([^<>=]*)=([^<>=]*)>>", text)
        if not sums or not all(annotations(text)):
            return 0.0
        left, value = sums[-1]
        computes = bool(re.search(r"[\d)]\s*[-+*/]", left))
        return float(
            computes and extract_strict(text) == extract_strict(f"####{value}")
        )

    readings = {**_SUMS, "be right for other sums and numbers": texts}
    properties = {phrase: [(t,) for t in texts] for phrase, texts in readings.items()}
    return check_properties(properties, answer, used)


def check_computed(answer) -> Check:
    """All steps that the sessions of a run compute, from checkpoint to checkpoint."""
    rng, cases = np.random.default_rng(15), []
    for _ in range(60):
        steps, every = map(int, rng.integers(1, (30, 8)))
        ends = np.sort(rng.integers(1, steps + 1, rng.integers(0, 4)))
        cases.append((steps, every, ends.tolist()))

    def computed(steps, every, pulled):
        """Step by step, with the checkpoints that are written."""
        done, written = [], {0}
        for last in [*pulled, steps]:
            for step in range(max(written) + 1, last + 1):
                done.append(step)
                if step % every == 0:
                    written.add(step)
        return done

    def run(*case):
        return list(answer(*case))

    properties = {
        "be each step once where nothing interrupts": [(5, 2, [])],
        "go on behind the last checkpoint, and repeat what came after": [(12, 3, [7])],
        "begin anew where nothing was written yet": [(6, 4, [3])],
        "lose nothing where a checkpoint was just written": [(12, 3, [6])],
        "be right for any run": cases,
    }
    return check_properties(properties, run, computed)
