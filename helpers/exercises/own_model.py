"""Self-checks of notebook 15: a model, a false row, a reward, a disconnect."""

import numpy as np

from helpers.course.which_model import largest_that_fits
from helpers.exercises.check import Check, filled, judge, whole
from helpers.rewards import extract_strict
from helpers.tasks import own_rows

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


def check_largest(name) -> Check:
    """The largest open model of the table that leaves a tenth of one chip free."""
    return judge(
        ("be filled in", filled(name, what="a model's name")),
        ("be a text, organisation/model", lambda: name.count("/") == 1),
        (
            "need no token, and leave a tenth of a v5e chip free, and be the largest "
            "of these",
            lambda: name == largest_that_fits("v5e-1", spare=10),
        ),
    )


ASKED = "Mia has 2 pens and buys 3 more. How many pens does Mia have?"


def check_false_row(row) -> Check:
    """A row in good form whose answer is wrong."""
    return judge(
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
            lambda: len(own_rows.check([row], gold=extract_strict).rows) == 1,
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

    return judge(
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


def check_computed_twice(steps) -> Check:
    """The steps after the last checkpoint: 7, where 3 and 6 were written."""
    return judge(
        ("be filled in", filled(steps, what="a list of steps")),
        ("be a list of whole numbers", lambda: whole(*list(steps))),
        ("name only steps that were done", lambda: set(steps) <= set(range(1, 8))),
        ("leave out what the checkpoint of step 6 holds", lambda: min(steps) > 6),
        ("name what came after it", lambda: list(steps) == [7]),
    )
