"""Notebook 15: a model, a row, a reward, a disconnect."""

import re

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


WRONG = {
    "15-1": {
        "no name": 1.7,
        "no organisation": "Qwen3-1.7B",
        "too small": "Qwen/Qwen3-0.6B",
        "needs a token": "google/gemma-3-1b-it",
        "too large": "google/gemma-3-4b-it",
        "small letters": "qwen/qwen3-1.7b",
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
        "all": [1, 2, 3, 4, 5, 6, 7],
        "none": [],
        "from the checkpoint on": [6, 7],
        "from the one before": [4, 5, 6, 7],
        "the next": [8],
        "a number": 7,
        "twice": [7, 7],
        "a half": [7.5],
    },
}

RIGHT = {
    "15-1": {"the name": "google/gemma-4-E2B-it"},
    "15-2": {
        "too many": ROW | {"answer": "#### 7"},
        "a slip": ROW | {"answer": "<<2+3=5>>5 pens.\n#### 55"},
    },
    "15-3": {"letters": used, "numbers": by_numbers},
    "15-4": {"a tuple": (7,), "a range": range(7, 8)},
}
