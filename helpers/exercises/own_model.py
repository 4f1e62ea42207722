"""Self-checks of notebook 15: a rank, a false row, a reward, disconnects."""

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, leaves_alone, whole
from helpers.rewards import extract_strict
from helpers.tasks import custom_rows

# (an answer, whether its last sum gives the number that it answers)
ANSWERS = {
    "Mia has <<2+3=5>>5 pens.\n#### 5": True,
    "<<4*6=24>>24, and <<24-4=20>>20.\n#### 20": True,
    "#### 5": False,
    "Mia has <<1=1>>5 pens.\n#### 5": False,
    "<<2+3=5>>5, then <<5-1=4>>4.\n#### 5": False,
    "<<2+3=6>>6 pens.\n#### 6": False,
    "<<2+2=5>>5, no, <<2+3=5>>5 pens.\n#### 5": False,
    "Mia has <<2+13=15>>15 pens.\n#### 5": False,
    "Mia has <<2+3=5>>5 pens.\n#### 15": False,
    "Mia has 2+3=5 pens.\n#### 5": False,
    "Mia has <<2+3=5>>5 pens.\n### 5": False,
    "Mia has <<1=1>> =5#### 5": False,
    "Mia has <<1=1>>, so n=5>>\n#### 5": False,
    "Mia has <<2+3=5>>5 pens.\n#### none": False,
    "It is <<2-7=-5>>-5 degrees.\n#### -5": True,
    "Each gets <<12/4=3>>3.\n#### 3": True,
    "<<4*6=24>>24 pens.\n#### 24": True,
    "": False,
}
# Sums that hold and compute nothing.
IDLE = (
    "<<5=5>>\n#### 5",
    "<<1=1>><<7=7>>#### 7",
    "<<05=5>>#### 5",
    "<<-5=-5>>\n#### -5",
    "<< -5=-5>>\n#### -5",
    "<<(-5)=-5>>\n#### -5",
    "<<+5=5>>\n#### 5",
    "<< +5=5>>\n#### 5",
    "<<--5=5>>\n#### 5",
    "<<-(-5)=5>>\n#### 5",
    "<<2+3=5>>5, so <<5=5>>5.\n#### 5",
)
# Right answers that a hasty reader misreads.
READ = {
    "<<2+3=5>>5 pens, and 9 >> 5 > 1 < 2 << 3.\n#### 5": False,  # a << without a sum
    "<<2+3=5>>5 pens, so n = 5, and 9 > 5 < 6.\n#### 5": True,
    "Mia has <<2+3=5>>5 pens, 9 >> 5.\n#### 5": True,
    "Mia has <<2+3=5>>5 pens.\n#### 5\n": True,
    "#### 4\nNo: <<2+3=5>>5 pens.\n#### 5": True,
    "<<500*2=1000>>1000 pens.\n#### 1,000": True,
    "<<(5)-(2)=3>>3 pens.\n#### 3": True,
    "<<2+3=5>>5 pens.\n#### 5\nNo:\n#### 4": False,
}


def _some_sums():
    """(text, whether its last sum gives the number that it answers), of many sums."""
    for a, b, c, kind in np.random.default_rng(15).integers(2, 30, (20, 4)).tolist():
        total = a * b + c
        first, last = f"<<{a}*{b}={a * b}>>", f"<<{a * b}+{c}={total}>>"
        said = (total, a * b, total + 1)[kind % 3]
        yield f"{first}{a * b}, and {last}{total}.\n#### {said}", said == total


def check_largest_rank(answer) -> Check:
    """The largest rank of LoRA that a chip's memory holds beside the frozen model."""
    one, tall = [(100, 60)], [(400, 8), (30, 50), (30, 50)]
    rng = np.random.default_rng(15)
    models = [rng.integers(8, 200, (n, 2)).tolist() for n in (1, 2, 3, 4, 5)]
    cases = [
        (m, _needed(m, rank) / 0.9) for m in models for rank in (0.5, 1.5, 9.5, 63.5)
    ]

    def gives(matrices, chip):
        return answer([tuple(shape) for shape in matrices], chip)

    def right(matrices, rank):
        """Whether the answer changes just where this rank begins to fit."""
        chip = 10 * _needed(matrices, rank) / 9
        below = rank - 1 or None
        return (
            gives(matrices, chip * 1.0001) == rank
            and gives(matrices, chip * 0.9999) == below
        )

    return check_properties(
        ("be 64 where there is plenty of room", lambda: gives(one, 1e9) == 64),
        (
            "be None where the frozen model alone takes more than there is",
            lambda: gives(one, 12_000) is None,
        ),
        ("fit what it says onto the chip", lambda: _fits(gives, one, 60_000)),
        (
            "count two bytes for a frozen number and sixteen for a trained one: the "
            "number, its gradient and two means, in float32",
            lambda: right(one, 5),
        ),
        ("add up the matrices, and both sides of each", lambda: right(tall, 7)),
        ("find rank 1 and rank 64 where they just fit", lambda: _ends(right, tall)),
        (
            "be right for other models and chips",
            lambda: all(gives(*case) == _largest(*case) for case in cases),
        ),
        ("leave the list as it is", lambda: leaves_alone(answer, tall, 1e5)),
    )


def _needed(matrices, rank):
    """Bytes of frozen matrices, and of what is trained beside them, one by one."""
    return sum(2 * r * c + 16 * (r * rank + rank * c) for r, c in matrices)


def _largest(matrices, chip):
    fits = [rank for rank in range(1, 65) if _needed(matrices, rank) <= 0.9 * chip]
    return max(fits, default=None)


def _fits(gives, matrices, chip):
    return _needed(matrices, gives(matrices, chip)) <= 0.9 * chip


def _ends(right, matrices):
    return right(matrices, 1) and right(matrices, 64)


ASKED = "Mia has 2 pens and buys 3 more. How many pens does Mia have?"


def check_false_row(row) -> Check:
    """A row in good form whose answer is wrong."""
    return check_properties(
        ("be filled in", filled(row, what="a row")),
        (
            "have a question, an answer and a number, all of them text",
            lambda: (
                set(row) == {"question", "answer", "number"}
                and all(isinstance(text, str) for text in row.values())
            ),
        ),
        (
            "pass the reader, with an answer that ends in #### and a number",
            lambda: len(custom_rows.check([row], gold=extract_strict).rows) == 1,
        ),
        ("ask what the exercise asks", lambda: row["question"].strip() == ASKED),
        (
            "have the right number, as your own reward needs it",
            lambda: extract_strict(f"#### {row['number']}") == 5,
        ),
        (
            "teach another number than the right one",
            lambda: extract_strict(row["answer"]) != 5,
        ),
    )


def check_sum_is_used(answer) -> Check:
    """A reward that pays for a sum only where its value is what is answered."""

    def pays(*wanted):
        return all(
            float(answer(text)) == float(good)
            for text, good in ANSWERS.items()
            if good in wanted
        )

    def of(text):
        return answer(text) == 0

    return check_properties(
        ("pay 1.0 where the last sum gives the number", lambda: pays(True)),
        ("pay nothing where no sum is shown", lambda: of("#### 5") and of("")),
        (
            "pay nothing for a sum that is false",
            lambda: of("<<2+3=6>>6 pens.\n#### 6"),
        ),
        (
            "pay nothing for a sum whose value is not the number after ####",
            lambda: of("Mia has <<1=1>>5 pens.\n#### 5"),
        ),
        ("look at the last sum, and at all of them", lambda: pays(False)),
        ("pay nothing for a sum that computes nothing", lambda: all(map(of, IDLE))),
        (
            "not be led astray by <, >, = and line breaks between the words",
            lambda: all(float(answer(text)) == good for text, good in READ.items()),
        ),
        (
            "be right for other sums and numbers",
            lambda: all(float(answer(text)) == good for text, good in _some_sums()),
        ),
    )


def check_computed(answer) -> Check:
    """All steps that the sessions of a run compute, from checkpoint to checkpoint."""
    rng = np.random.default_rng(15)
    runs = [_drawn(rng) for _ in range(60)]

    def steps(*run):
        return [int(step) for step in answer(*run) if whole(step)]

    def right(*run):
        return steps(*run) == _computed(*run)

    return check_properties(
        (
            "be each step once where nothing interrupts",
            lambda: steps(5, 2, []) == [1, 2, 3, 4, 5],
        ),
        (
            "go on behind the last checkpoint, not from the beginning",
            lambda: steps(12, 3, [7]).count(6) == steps(12, 3, [7]).count(1) == 1,
        ),
        (
            "compute what came after it again, to the end of the run",
            lambda: right(12, 3, [7]),
        ),
        ("begin anew where nothing was written yet", lambda: right(6, 4, [3])),
        (
            "lose nothing where a checkpoint was just written",
            lambda: right(12, 3, [6]) and right(5, 1, [2, 4]),
        ),
        (
            "take several disconnects, near and far",
            lambda: right(20, 5, [4, 4, 13, 12]),
        ),
        ("be right for any run", lambda: all(right(*run) for run in runs)),
        ("leave the list as it is", lambda: leaves_alone(answer, 12, 3, [4, 7])),
    )


def _drawn(rng):
    """A run: steps, steps from checkpoint to checkpoint, and where it was cut off."""
    steps, every = rng.integers(1, 30), rng.integers(1, 8)
    cut = np.sort(rng.integers(1, steps + 1, rng.integers(0, 4)))
    return int(steps), int(every), cut.tolist()


def _computed(steps, every, pulled):
    """The same, step by step, with checkpoints that are written."""
    computed, written = [], {0}
    for last in [*pulled, steps]:
        step = max(written)
        while step < last:
            step += 1
            computed.append(step)
            if step % every == 0:
                written.add(step)
    return computed
