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


def across_the_words(text):
    """As the official solution was once: bought with <<1=1>> =5#### 5."""
    return text.rpartition("#### ")[0].rpartition("=")[2].partition(">>")[0]


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


def writes_in_the_list(steps, every, pulled):
    pulled.append(steps)
    return sessions()(steps, every, pulled[:-1])


WRONG = {
    "15-1": {
        "the whole chip": fitting(share=1.0),
        "no gradient, no means": fitting(trained=4),
        "no gradient": fitting(trained=12),
        "in bfloat16": fitting(trained=8),
        "frozen in float32": fitting(frozen=4),
        "the frozen matrix is trained, too": fitting(frozen=18),
        "one side": fitting(sides=lambda rows, columns: rows),
        "the other side": fitting(sides=lambda rows, columns: columns),
        "a matrix of its size": fitting(sides=lambda rows, columns: rows * columns),
        "the first matrix": lambda matrices, chip: fitting()(matrices[:1], chip),
        "each for itself": lambda matrices, chip: min(
            fitting()([shape], chip) or 0 for shape in matrices
        ),
        "the smallest": lambda matrices, chip: 1 if fitting()(matrices, chip) else None,
        "no end": fitting(most=1000),
        "powers of two": lambda matrices, chip: max(
            (2**i for i in range(7) if 2**i <= (fitting()(matrices, chip) or 0)),
            default=None,
        ),
        "0 where none fits": lambda matrices, chip: fitting()(matrices, chip) or 0,
        "the default": lambda matrices, chip: 32,
        "uses them up": lambda matrices, chip: fitting()(
            [matrices.pop() for _ in range(len(matrices))], chip
        ),
    },
    "15-2": {
        "true": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 5"},
        "no number": ROW | {"number": "five"},
        "no mark": ROW | {"answer": "six pens"},
        "no question": ROW | {"question": ""},
        "numbers": ROW | {"number": 5},
        "a key too many": ROW | {"level": "1"},
        "written otherwise": ROW | {"answer": "5 pens.\n#### 5.0"},
        "the number is false": ROW | {"answer": "<<2+3=5>>5\n#### 5", "number": "6"},
        "another question": ROW | {"question": "How many pens?"},
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
        "one true sum": with_mistake(good=lambda text: any(annotations(text))),
        "the first sum": with_mistake(
            value=lambda text: text.partition("=")[2].partition(">>")[0]
        ),
        "any sum's value": lambda text: float(
            holds(text) and f"={text.rpartition('#### ')[2].strip()}>>" in text
        ),
        "across the words": with_mistake(value=across_the_words),
        "the first mark": with_mistake(
            number=lambda text: text.partition("#### ")[2].split("\n")[0]
        ),
        "five": lambda text: float(extract_strict(text) == 5),
        "part of it": lambda text: float(
            holds(text) and last_value(text) in text.rpartition("#### ")[2]
        ),
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
        "the last disconnect": lambda steps, every, pulled: sessions()(
            steps, every, pulled[-1:]
        ),
        "every three": lambda steps, every, pulled: sessions()(steps, 3, pulled),
        "what comes twice": lambda *run: [
            step for step in set(sessions()(*run)) if sessions()(*run).count(step) > 1
        ],
        "in order of their numbers": lambda *run: sorted(sessions()(*run)),
        "each once": lambda *run: [*dict.fromkeys(sessions()(*run))],
        "how many": lambda *run: len(sessions()(*run)),
        "no end": lambda steps, every, pulled: sessions()(steps - 1, every, pulled),
        "from 0": lambda *run: [step - 1 for step in sessions()(*run)],
        "session by session": lambda *run: [[step] for step in sessions()(*run)],
        "writes in the list": writes_in_the_list,
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
