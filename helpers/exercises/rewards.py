"""Self-checks of notebook 05: reading a number, weights, a cheat, a mended reward."""

import math
import re
from fractions import Fraction

import numpy as np

from helpers.exercises.check import Check, judge, leaves_alone
from helpers.rewards import functions
from helpers.tasks.maths import word_problems


def check_read_number(answer) -> Check:
    """A strict reader of the number after the last ####."""

    def reads(text, value):
        return lambda: answer(text) == value

    return judge(
        ("read a whole number, #### 37", reads("He pays 37.\n#### 37", 37)),
        ("give None where there is no ####", reads("He pays 37.", None)),
        ("give None where no number follows the ####", reads("#### none", None)),
        ("read the sign of -3", reads("#### -3", -3)),
        ("read the unicode minus as a minus", reads("#### \N{MINUS SIGN}3", -3)),
        ("read 1,000 as one number", reads("#### 1,000", 1000)),
        ("read $18.00 as 18", reads("#### $18.00", 18)),
        ("read a full stop after the number as a full stop", reads("#### 18.", 18)),
        ("read 1/2 exactly", reads("#### 1/2", Fraction(1, 2))),
        ("read 0.1 exactly, not as a float", reads("#### 0.1", Fraction(1, 10))),
        ("take 5% as 5, a percent sign being a unit", reads("#### 5%", 5)),
        ("allow words after the number", reads("#### 18 dollars a day", 18)),
        ("give None for two numbers: no hedging", reads("#### 3 or 4", None)),
        ("look at the last #### of several", reads("#### 3\n#### 4", 4)),
        ("look at one line only", reads("#### 3\nThat is 4 less than 7.", 3)),
        ("survive a division by zero: 1/0 is no number", reads("#### 1/0", None)),
        ("read 1/12, a line with two digits below", reads("#### 1/12", _TWELFTH)),
        ("not take a heading, ###, for the mark", reads("### 18", None)),
        ("not go back to an earlier ####", reads("#### 3\n#### none", None)),
        ("never raise", lambda: [answer(text) for text in HARD_TEXTS]),
        (
            "read any number",
            lambda: all(answer(f"So 7.\n#### {n:,}\n9") == n for n in _some_numbers()),
        ),
    )


_TWELFTH = Fraction(1, 12)


def _some_numbers():
    return np.random.default_rng(5).integers(-(10**7), 10**7, 20).tolist()


def check_weights(weights) -> Check:
    """Weights under which being right is worth more than all style together."""
    names = {"correct", "format_reward", "annotations_hold", "length_penalty"}

    def margin():
        worst_right = weights["correct"] - weights["length_penalty"]
        best_wrong = weights["format_reward"] + weights["annotations_hold"]
        return worst_right - best_wrong

    return judge(
        ("have one weight for each of the four", lambda: set(weights) == names),
        ("hold finite numbers", lambda: all(map(math.isfinite, weights.values()))),
        ("pay something for each: weights above 0", lambda: min(weights.values()) > 0),
        (
            "pay a right answer that is long and untidy more than a wrong one that is "
            "short and tidy",
            lambda: margin() > 1e-9,
        ),
    )


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
        scores = function(prompts, [cheat] * len(rows), answer=answer)
        return sum(scores) / len(scores)

    return judge(
        ("be a text", lambda: isinstance(cheat, str) and cheat.strip()),
        ("fit into 20,000 characters", lambda: len(cheat) <= 20_000),
        (
            "earn the full annotations_hold",
            lambda: mean(functions.annotations_hold) == 1,
        ),
        (
            "earn contains_answer on at least 95% of 200 test problems",
            lambda: mean(contains_answer) >= 0.95,
        ),
        (
            "be right on less than 10% of them: it is a cheat, not an answer",
            lambda: mean(functions.correct) < 0.1,
        ),
    )


GOLD = "He has <<6*5=30>>30 in all.\nHe pays <<30+7=37>>37.\n#### 37"
HARD_TEXTS = ["", "####", "<<", "<<1/0=0>>", "#### 1/0", ">>==<<", "#### 3" * 50]
HARD_TEXTS += ["#### -", "#### .", "#### 1/", "#### /2", "#### 0/0", "#### 1.2.3"]
# Sums without an operator, as many ways as there are to write nothing.
EMPTY = ["1=1", "37=37", "12=12", "-1=-1", "+1=1", "1.0=1", " 1=1", "1 =1", "(1)=1"]


def check_shown_work(answer) -> Check:
    """A reward for calculations that the cheat cannot collect."""

    def score(text, gold=GOLD):
        columns = {"answer": [gold], "level": [2], "names": [["Mia"]]}
        (value,) = answer(["q"], [text], **columns)
        return value

    return judge(
        (
            "give one number per completion",
            lambda: len(answer(["q"] * 3, [GOLD] * 3, answer=[GOLD] * 3)) == 3,
        ),
        ("take columns that it does not use", lambda: score(GOLD) is not None),
        (
            "give every text a finite number, empty and absurd ones too",
            lambda: all(
                functions.RewardSet(answer)(["q"], [text], answer=[GOLD])
                for text in HARD_TEXTS
            ),
        ),
        *_pays(score),
        (
            "judge each completion of a batch by its own gold answer, in order",
            lambda: _paid_in_batch(answer) == _batch()[2],
        ),
        (
            "leave what it is given alone",
            lambda: leaves_alone(
                lambda *given: answer(given[0], *given), *_batch()[:2]
            ),
        ),
    )


def _pays(score):
    """What a reward for shown work has to pay for single texts, all of gold 37."""
    return (
        ("pay 1 for a right answer with true sums", lambda: score(GOLD) == 1),
        (
            "pay a right answer without any sum less than that, but something",
            lambda: 0 < score("#### 37") < 1,
        ),
        (
            "pay nothing for a wrong answer, however true its sums",
            lambda: score("<<6*5=30>>30 <<30+8=38>>38\n#### 38") == 0,
        ),
        (
            "pay nothing to who names two numbers, or none after a ####",
            lambda: score("#### 36 or 37") == score("So <<30+7=37>>37.") == 0,
        ),
        (
            "pay a right answer with a false sum less than 1",
            lambda: score("<<6*5=35>>35 <<30+7=37>>37\n#### 37") < 1,
        ),
        (
            "pay <<1=1>> no more than no sum at all",
            lambda: score("<<1=1>>\n#### 37") <= score("#### 37"),
        ),
        (
            "pay other sums without an operator, such as <<(1)=1>>, no more either",
            lambda: all(score(f"<<{e}>>\n#### 37") <= score("#### 37") for e in EMPTY),
        ),
        (
            "look at all sums: one false sum, first or last, costs the full point",
            lambda: (
                score("<<6*5=30>>30 <<30+7=35>>35\n#### 37") < 1
                and score("<<6*5=35>>35 <<30+7=37>>37\n#### 37") < 1
            ),
        ),
        (
            "not be led astray by < and = in the words",
            lambda: score("As 4 <5=5, <<6*5=30>>30 <<30+7=37>>37\n#### 37") == 1,
        ),
    )


def _paid_in_batch(answer):
    """What a batch is paid: 1, 0, or 0.5 for something in between."""
    texts, golds, _ = _batch()
    paid = answer(["q"] * len(texts), texts, answer=golds, level=[2] * len(texts))
    return [1 if p == 1 else 0 if p == 0 else 0.5 for p in paid]


def _batch():
    """Texts, gold answers, and what each text earns: 1, 0, or 0.5 for in between."""
    rng, texts, golds, kinds = np.random.default_rng(5), [], [], []
    for a, b, kind in rng.integers(2, 50, (12, 3)).tolist():
        golds.append(f"<<{a}+{b}={a + b}>>{a + b}\n#### {a + b}")
        work, number = f"<<{a}+{b}={a + b}>>", a + b + (kind % 3 == 0)
        texts.append(f"{work if kind % 3 < 2 else ''}{number}\n#### {number}")
        kinds.append((0, 1, 0.5)[kind % 3])
    return texts, golds, kinds
