"""Self-checks of notebook 05: a verifier, weights, a cheat, a mended reward."""

import collections
import math
import re

import numpy as np

from helpers.exercises.check import Check, check_properties
from helpers.rewards import functions
from helpers.tasks.maths import word_problems
from helpers.tools import calculator

N = (25, 7, 3)
# What a verifier should do, and (text, numbers, target) that show it.
_CALCULATIONS = {
    "pay 1 for #### 25 + 3, which makes 28": [("#### 25 + 3", N, 28)],
    "pay 1 for whatever calculation does it: 100 is (7 - 3) * 25": (
        [("#### (7 - 3) * 25", N, 100), ("#### 7 * 3 + 7", (7, 7, 3), 28)]
    ),
    "pay nothing for another value, larger or smaller": (
        [("#### 25 + 7", N, 28), ("#### 25 - 3", N, 28)]
    ),
    "pay nothing for a number that is not given, such as 28 itself, 2.5 or .5": (
        [("#### 28", N, 28), ("#### 21 + 7", N, 28), ("#### 25 + 3", (2, 5, 3), 28)]
        + [("#### 2.5 * 8", (2, 5, 8), 20), ("#### .5 * 8", (5, 8), 4)]
    ),
    "pay nothing for a number that is used twice": (
        [("#### 7 + 7 + 7 + 7", N, 28), ("#### 25 + 7 - 7 + 3", N, 28)]
    ),
    "be exact: 24 is 8 / (3 - 8 / 3), and nearly is not exactly": (
        [("#### 8 / (3 - 8 / 3)", (3, 3, 8, 8), 24)]
        + [(f"#### 25 + 3 + 1 / {n}", (25, 3, 1, n), 28) for n in (99, 10**11)]
    ),
    "pay nothing for a line with more than a calculation: = 7, words, or code": (
        [(f"#### {x}", N, 28) for x in ("25 + 3 = 7", "25 + 3 of course", "not 25 + 3")]
        + [("#### (lambda: 25 + 3)()", N, 28), ("#### 3 ** 3 + 1", (3, 3, 1), 28)]
    ),
    "look at the line of the last ####, and at no other": (
        [("25 + 3", N, 28), ("### 25 + 3", N, 28), ("#### 25 + 3\n#### none", N, 28)]
        + [("#### 25 + 7\n#### 25 + 3", N, 28), ("#### 25 + 3\n25 and 3.", N, 28)]
    ),
}
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

    properties: dict = {
        phrase: [(text, list(numbers), target) for text, numbers, target in cases]
        for phrase, cases in _CALCULATIONS.items()
    }
    properties["never raise"] = lambda: [answer(t, list(N), 28) for t in ABSURD_TEXTS]
    properties["be right for other numbers"] = _random_calculations()
    return check_properties(properties, answer, makes)


def _random_calculations():
    """Calculations that are right, wrong, of a number not given, or used twice."""
    rng = np.random.default_rng(5)
    cases = []
    for kind in [0, 1, 2, 3] * 5:
        a, b, c, d = rng.choice(np.arange(2, 60), 4, replace=False).tolist()
        last = (f"{c}", f"{c}", f"{d + 60}", f"{c}+{a}-{a}")[kind]
        target = a * b + (d + 60 if kind == 2 else c) + (kind == 1)
        cases.append((f"I use {d}.\n#### {a}*{b}+{last}", [a, b, c, d], target))
    return cases


def check_weights(weights) -> Check:
    """Weights under which being right is worth more than all style together."""
    names = {"correct", "format_reward", "annotations_hold", "length_penalty"}

    def float32():
        """The weights as `RewardSet` has them."""
        with np.errstate(over="ignore"):  # too large a weight is infinite there
            return [float(np.float32(weight)) for weight in weights.values()]

    def margin():
        worst_right = weights["correct"] - weights["length_penalty"]
        best_wrong = weights["format_reward"] + weights["annotations_hold"]
        return worst_right - best_wrong

    properties = {
        "have one weight for each of the four": lambda: set(weights) == names,
        "be finite, in float32 too": lambda: all(map(math.isfinite, float32())),
        "pay something for each: weights above 0": lambda: min(float32()) > 0,
        "pay a right answer that is long and untidy more than a wrong one that is "
        "short and tidy": lambda: margin() > 1e-9,
    }
    return check_properties(properties)


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
        "be a text": lambda: isinstance(cheat, str) and cheat.strip(),
        "fit into 20,000 characters": lambda: len(cheat) <= 20_000,
        "earn the full annotations_hold": lambda: mean(functions.annotations_hold) == 1,
        "earn contains_answer on at least 95% of 200 test problems": lambda: (
            mean(contains_answer) >= 0.95
        ),
        "be right on less than 10% of them: it is a cheat, not an answer": lambda: (
            mean(functions.correct) < 0.1
        ),
    }
    return check_properties(properties)


GOLD = "He has <<6*5=30>>30 in all.\nHe pays <<30+7=37>>37.\n#### 37"
_EMPTY_SUMS = ("1=1", "37=37", "-1=-1", "(1)=1", "(-1)=-1", "--1=1", " 1=1")
# What a reward for shown work should do, and texts about 37 that show it.
_WORK = {
    "pay 1 for a right answer with true sums": [GOLD],
    "pay a right answer without any sum less than that, but something": ["#### 37"],
    "pay nothing for a wrong answer, however true its sums, nor for two numbers": (
        ["<<6*5=30>>30 <<30+8=38>>38\n#### 38", "#### 36 or 37", "So <<30+7=37>>37."]
    ),
    "pay less than 1 where any of the sums is false": (
        ["<<6*5=35>> <<30+7=37>>\n#### 37", "<<6*5=30>> <<30+7=35>>\n#### 37"]
        + ["<<1+2=3>> <<2+2=4>> <<3+2=4>> <<4+2=6>> <<35+2=37>>\n#### 37"]
    ),
    "pay less than 1 for <<1=1>> or <<(1)=1>>, also beside a true sum": (
        [f"<<{empty}>>\n#### 37" for empty in _EMPTY_SUMS]
        + [f"<<30+7=37>>37 <<{empty}>>\n#### 37" for empty in _EMPTY_SUMS]
    ),
    "not be led astray by < and = in the words": (
        ["As 4 <5=5, <<6*5=30>>30 <<30+7=37>>37\n#### 37"]
    ),
}


def check_shown_work(answer) -> Check:
    """A reward for calculations that the cheat cannot collect."""

    def pays(texts, golds):
        """What each text is paid: 1, 0, or 0.5 for anything between them."""
        questions, more = ["q"] * len(texts), {"level": [2] * len(texts)}
        paid = answer(questions, texts, answer=golds, names=[[]] * len(texts), **more)
        return [0.5 if 0 < pay < 1 else pay for pay in paid]

    properties: dict = {
        "give one number per completion": lambda: len(pays(*[[GOLD] * 3] * 2)) == 3
    }
    for phrase, texts in _WORK.items():
        properties[phrase] = [([text], [GOLD]) for text in texts]
    properties["give absurd texts a finite number, too"] = lambda: np.isfinite(
        pays(ABSURD_TEXTS, [GOLD] * len(ABSURD_TEXTS))
    ).all()
    properties["judge each completion by its own gold answer, in order"] = [_batch()]
    return check_properties(properties, pays, _shown_work)


def _shown_work(texts, golds):
    paid = []
    for right, text in zip(functions.correct(texts, texts, golds), texts, strict=True):
        sums = re.findall(r"<<([^<>=]*)=[^<>=]*>>", text)
        computes = sums and all(re.search(r"\d\)*\s*[-+*/]", left) for left in sums)
        shown = computes and all(functions.annotations(text))
        paid.append(right if shown else 0.5 * right)
    return paid


def _batch():
    """Texts that are right, wrong or bare, each with a gold answer of its own."""
    rng, texts, golds = np.random.default_rng(5), [], []
    for a, b, kind in rng.integers(2, 50, (12, 3)).tolist():
        golds.append(f"<<{a}+{b}={a + b}>>{a + b}\n#### {a + b}")
        work, number = f"<<{a}+{b}={a + b}>>", a + b + (kind % 3 == 0)
        texts.append(f"{work if kind % 3 < 2 else ''}{number}\n#### {number}")
    return texts, golds
