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


def last_sum(text):
    """(left side, value) of the last sum before the answer."""
    before = text.rpartition("#### ")[0].rpartition("<<")[2].partition(">>")[0]
    return before.rpartition("=")[::2]


def computes(text):
    return re.search(r"[\d)]\s*[-+*/]", last_sum(text)[0]) is not None


def signed(text):
    return any(sign in last_sum(text)[0][1:] for sign in "+-*/")


def used(text, good=lambda text: holds(text) and computes(text)):
    number = text.rpartition("#### ")[2].strip().replace(",", "")
    return float(good(text) and last_sum(text)[1] == number)


def with_mistake(good):
    return lambda text: used(text, good)


def by_numbers(text):
    """A right alternative: numbers are compared, not letters."""
    before, mark, _ = text.rpartition("#### ")
    sums = re.findall(r"<<([^<>=]+)=([^<>=]+)>>", before)
    if not (mark and sums and all(annotations(text))):
        return 0
    left, value = sums[-1]
    right = extract_strict(f"#### {value}") == extract_strict(text)
    return int(right and re.search(r"[\d)]\s*[-+*/]", left) is not None)


def fitting(share=0.9, frozen=2, trained=16):
    """The largest rank, by trying each; a mistake replaces one of the numbers."""

    def answer(matrices, chip):
        largest = None
        for rank in range(1, 65):
            needed = sum(frozen * r * c + trained * rank * (r + c) for r, c in matrices)
            largest = rank if needed <= share * chip else largest
        return largest

    return answer


def divided(matrices, chip):
    """The same, without a loop over ranks."""
    shapes = np.array(matrices)
    room = 0.9 * chip - 2 * shapes.prod(axis=1).sum()
    rank = int(room // (16 * shapes.sum()))
    return min(rank, 64) if rank > 0 else None


def sessions(saved=lambda last, every: last // every * every):
    """All steps of all sessions; a mistake is another checkpoint."""

    def answer(steps, every, pulled):
        done, there = [], 0
        for last in (*pulled, steps):
            done.extend(range(there + 1, last + 1))
            there = saved(last, every)
        return done

    return answer


WRONG = {
    "15-1": {
        "the whole chip": fitting(share=1.0),
        "no gradient, no means": fitting(trained=4),
        "frozen in float32": fitting(frozen=4),
        "the frozen matrix is trained, too": fitting(frozen=18),
    },
    "15-2": {
        "true": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 5"},
        "no number": ROW | {"number": "five"},
        "no mark": ROW | {"answer": "six pens"},
        "numbers": ROW | {"number": 5},
    },
    "15-3": {
        "a sign past the first letter": with_mistake(
            lambda text: holds(text) and signed(text)
        ),
        "any sum": holds,
        "false sums, too": with_mistake(lambda text: "<<" in text),
        "a sum of nothing": with_mistake(holds),
    },
    "15-4": {
        "how many were written": sessions(lambda last, every: last // every),
        "from the beginning": sessions(lambda last, every: 0),
        "nothing again": sessions(lambda last, every: last),
        "the first disconnect": lambda steps, every, pulled: sessions()(
            steps, every, pulled[:1]
        ),
    },
}

RIGHT = {
    "15-1": {
        "from 1 on": fitting(),
        "divided": divided,
    },
    "15-2": {
        "too many": ROW | {"answer": "#### 7"},
        "a slip": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 55"},
    },
    "15-3": {"letters": used, "numbers": by_numbers},
    "15-4": {
        "by sessions": sessions(),
        "a tuple": lambda *run: tuple(sessions()(*run)),
        "a generator": lambda *run: iter(sessions()(*run)),
    },
}
