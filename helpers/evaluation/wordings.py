"""Which way of asking suits a model: tried on questions that it may be trained on.

An instruction that helps one model hurts another. A baseline asked badly makes any
training look good, so the wording is chosen for the model as it comes; and never on the
questions that it is then measured with.
"""

import re

from helpers.evaluation.evaluator import evaluate
from helpers.evaluation.report import MathsReport

WORDINGS = {
    "bare": "{question}",
    "end": "{question}\nEnd with a line that holds #### and the number.",
    "steps": "{question}\nWork it out step by step. End with a line that holds #### "
    "and the number, such as #### 42.",
    "first": "Answer with #### and a number, such as #### 42. {question}",
    "example": "Question: Ann has 5 pens and buys 7. How many pens has she?\n"
    "Answer: Ann has <<5+7=12>>12 pens.\n#### 12\n\nQuestion: {question}\nAnswer:",
}

# For `evaluate`'s stop: a line with #### and a number, and its end.
FINAL_LINE = re.compile(r"####[^\n]*\d[^\n]*\n")


def worded(rows, wording: str) -> list[dict]:
    """The rows with their questions put into a wording, where it says `{question}`.

    Raises:
      ValueError: it does not say so once, or a question is no text.
    """
    if wording.count("{question}") != 1:
        raise ValueError(f"The wording {wording!r} must hold {{question}} once.")
    if not all(isinstance(row["question"], str) for row in rows):
        raise ValueError("Questions have to be texts to be worded, not messages.")
    before, after = wording.split("{question}")
    return [row | {"question": before + row["question"] + after} for row in rows]


def by_wording(
    model, tokenizer, rows, wordings=None, **limits
) -> dict[str, MathsReport]:
    """Greedy answers to the same questions in several wordings, the best one first.

    The best has most answers right by the strict rule that training is paid by; then
    by the lenient one; then it is the shortest.

    Args:
      rows: training rows.
      wordings: {name: text with `{question}` in it}; None: `WORDINGS`.
      limits: for `evaluate`; its buckets must hold the longest wording.
    """
    wordings = WORDINGS if wordings is None else wordings
    limits = {"samples": 0} | limits
    reports = {
        name: evaluate(model, tokenizer, worded(rows, text), **limits)
        for name, text in wordings.items()
    }

    def worth(name):
        report = reports[name]
        return -report.greedy, -report.lenient, len(wordings[name])

    return {name: reports[name] for name in sorted(reports, key=worth)}
