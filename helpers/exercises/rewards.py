"""Self-checks of notebook 05: a verifier, and a text that cheats two rewards."""

import collections
import re

import numpy as np

from helpers.exercises.check import Check, check_properties, texts
from helpers.rewards import functions
from helpers.tasks.maths import word_problems
from helpers.tools import calculator

ABSURD_TEXTS = ["", "####", "<<", "<<1/0=0>>", "#### 1/0", ">>==<<", "#### 3" * 50]
ABSURD_TEXTS += ["#### -", "#### .", "#### 1/", "#### 1.2.3", "#### " + "9" * 5000]


def check_makes(answer) -> Check:
    """A verifier of calculations from given numbers, without a gold answer."""

    def makes(text, numbers, target):
        line = text.rpartition("####")[2].partition("\n")[0]
        used = collections.Counter(re.findall(r"[\d.]+", line))
        extra = used - collections.Counter(map(str, numbers))
        right = calculator.calculate(line) == target
        return float("####" in text and not extra and right)

    rng, others = np.random.default_rng(5), []
    for kind in [0, 1, 2, 3] * 5:  # right, wrong, of a number not given, or used twice
        a, b, c, d = rng.choice(np.arange(2, 60), 4, replace=False).tolist()
        last = (f"{c}", f"{c}", f"{d + 60}", f"{c}+{a}-{a}")[kind]
        target = a * b + (d + 60 if kind == 2 else c) + (kind == 1)
        others.append((f"I use {d}.\n#### {a}*{b}+{last}", [a, b, c, d], target))
    properties = {
        **texts("makes"),
        "never raise": [(text, [25, 3], 28) for text in ABSURD_TEXTS],
        "be right for other numbers": others,
    }
    return check_properties(properties, answer, makes)


def contains_answer(prompts, completions, answer, **_):
    """1.0 where the gold number stands anywhere in the text, as in the notebook."""
    gold = [str(functions.gold_number(text)) for text in answer]
    written = [re.findall(r"\d+", text) for text in completions]
    return [float(g in numbers) for g, numbers in zip(gold, written, strict=True)]


def check_cheat(cheat) -> Check:
    """One text that two rewards pay in full and that answers nothing."""
    rows = word_problems.generate(200, seed=12, levels=(2, 3), split="test")
    prompts, answer = [r["question"] for r in rows], [r["answer"] for r in rows]

    def mean(function):
        return np.mean(function(prompts, [cheat] * len(rows), answer=answer))

    properties = {
        "be a text of at most 20,000 characters": lambda: (
            isinstance(cheat, str) and 0 < len(cheat) <= 20_000
        ),
        "earn the full annotations_hold": lambda: mean(functions.annotations_hold) == 1,
        "earn contains_answer on at least 95% of 200 test problems": lambda: (
            mean(contains_answer) >= 0.95
        ),
        "be right on less than 10% of them: it is a cheat, not an answer": lambda: (
            mean(functions.correct) < 0.1
        ),
    }
    return check_properties(properties)
