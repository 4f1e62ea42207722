"""Notebook 15: a rank, a row, a reward, disconnects."""

import re

import numpy as np

from helpers.rewards import annotations, extract_strict

ROW = {
    "question": "Mia has 2 pens and buys 3 more. How many pens does Mia have?",
    "answer": "<<2+3=6>>6 pens.\n#### 6",
    "number": "5",
}


def holds(text):
    return bool(annotations(text)) and all(annotations(text))


def last_value(text):
    said = text.rpartition("#### ")[0]
    return said.rpartition("<<")[2].partition(">>")[0].rpartition("=")[2]


def computes(text):
    said = text.rpartition("#### ")[0].rpartition("<<")[2].partition(">>")[0]
    return re.search(r"[\d)]\s*[-+*/]", said.rpartition("=")[0]) is not None


def signed(text):
    said = text.rpartition("#### ")[0].rpartition("<<")[2].partition(">>")[0]
    return any(sign in said.rpartition("=")[0][1:] for sign in "+-*/")


def used(
    text,
    value=last_value,
    good=lambda text: holds(text) and computes(text),
    number=lambda t: t.rpartition("#### ")[2],
):
    return float(good(text) and value(text) == number(text).strip().replace(",", ""))


def with_mistake(**mistake):
    return lambda text: used(text, **mistake)


def by_numbers(text):
    """A right alternative: numbers are compared, not letters."""
    said, mark, _ = text.rpartition("#### ")
    sums = re.findall(r"<<([^<>=]+)=([^<>=]+)>>", said)
    if not (mark and sums and all(annotations(text))):
        return 0
    left, value = sums[-1]
    right = extract_strict(f"#### {value}") == extract_strict(text)
    return int(right and re.search(r"[\d)]\s*[-+*/]", left) is not None)


def fitting(share=0.9, frozen=2, trained=16, sides=lambda r, c: r + c, most=64):
    """The largest rank, by trying each; a mistake replaces one of the numbers."""

    def answer(matrices, chip):
        found = None
        for rank in range(1, most + 1):
            needed = sum(
                frozen * r * c + trained * rank * sides(r, c) for r, c in matrices
            )
            found = rank if needed <= share * chip else found
        return found

    return answer


def divided(matrices, chip):
    """The same, without a loop over ranks."""
    shapes = np.array(matrices)
    room = 0.9 * chip - 2 * shapes.prod(axis=1).sum()
    rank = int(room // (16 * shapes.sum()))
    return min(rank, 64) if rank > 0 else None


def sessions(
    first=lambda saved: saved + 1, saved=lambda last, every: last // every * every
):
    """All steps of all sessions; a mistake is another checkpoint, or beginning."""

    def answer(steps, every, pulled):
        done, there = [], 0
        for last in (*pulled, steps):
            done.extend(range(first(there), last + 1))
            there = saved(last, every)
        return done

    return answer


WRONG = {
    "15-1": {
        "the whole chip": fitting(share=1.0),
        "no gradient, no means": fitting(trained=4),
        "no gradient": fitting(trained=12),
        "in bfloat16": fitting(trained=8),
        "frozen in float32": fitting(frozen=4),
        "the frozen matrix is trained, too": fitting(frozen=18),
        "one side": fitting(sides=lambda rows, columns: rows),
    },
    "15-2": {
        "true": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 5"},
        "no number": ROW | {"number": "five"},
        "no mark": ROW | {"answer": "six pens"},
        "no question": ROW | {"question": ""},
        "numbers": ROW | {"number": 5},
        "a key too many": ROW | {"level": "1"},
        "written otherwise": ROW | {"answer": "5 pens.\n#### 5.0"},
    },
    "15-3": {
        "always": lambda text: 1.0,
        "never": lambda text: 0.0,
        "a sign past the first letter": with_mistake(
            good=lambda text: holds(text) and signed(text)
        ),
        "any sum": holds,
        "the right form": lambda text: float("<<" in text and "#### " in text),
        "false sums, too": with_mistake(good=lambda text: "<<" in text),
        "a sum of nothing": with_mistake(good=holds),
    },
    "15-4": {
        "from the checkpoint on": sessions(first=lambda saved: max(saved, 1)),
        "how many were written": sessions(saved=lambda last, every: last // every),
        "from the beginning": sessions(saved=lambda last, every: 0),
        "nothing again": sessions(saved=lambda last, every: last),
        "the checkpoint before": sessions(
            saved=lambda last, every: max((last - 1) // every * every, 0)
        ),
        "the example": lambda steps, every, pulled: [*range(1, 8), *range(7, 13)],
        "the first disconnect": lambda steps, every, pulled: sessions()(
            steps, every, pulled[:1]
        ),
    },
}

RIGHT = {
    "15-1": {
        "from 1 on": fitting(),
        "divided": divided,
        "a NumPy number": lambda *given: (
            None if divided(*given) is None else np.int64(divided(*given))
        ),
    },
    "15-2": {
        "too many": ROW | {"answer": "#### 7"},
        "a slip": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 55"},
    },
    "15-3": {"letters": used, "numbers": by_numbers},
    "15-4": {
        "by sessions": sessions(),
        "a tuple": lambda *run: tuple(sessions()(*run)),
        "an array": lambda *run: np.array(sessions()(*run)),
        "a generator": lambda *run: iter(sessions()(*run)),
    },
}
