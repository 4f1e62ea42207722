"""Self-checks of notebook 05: a verifier, weights, a cheat, a mended reward."""

import math
import re
from fractions import Fraction

import numpy as np

from helpers.exercises.check import Check, check_properties, leaves_alone
from helpers.rewards import functions
from helpers.tasks.maths import word_problems


def check_makes(answer) -> Check:
    """A verifier of calculations from given numbers, without a gold answer."""

    def pays(text, numbers=(25, 7, 3), target=28):
        return answer(text, list(numbers), target)

    return check_properties(
        *_takes_the_given_numbers(pays),
        *_is_exact_arithmetic(pays),
        *_reads_the_last_line(pays),
        ("never raise", lambda: [pays(text) for text in HARD_TEXTS]),
        (
            "be right for other numbers",
            lambda: all(pays(*case) == paid for *case, paid in _some_made()),
        ),
        (
            "leave the list of numbers as it is",
            lambda: leaves_alone(answer, "#### 25 + 3", [25, 7, 3], 28),
        ),
    )


def _takes_the_given_numbers(pays):
    """A calculation makes the target of the numbers that are given, each once."""
    return (
        ("pay 1 for #### 25 + 3, which makes 28", lambda: pays("#### 25 + 3") == 1),
        (
            "pay 1 for whatever calculation does it: 100 is (7 - 3) * 25",
            lambda: pays("#### (7 - 3) * 25", target=100) == 1,
        ),
        (
            "pay nothing for another value, larger or smaller",
            lambda: pays("#### 25 + 7") == pays("#### 25 - 3") == 0,
        ),
        (
            "pay nothing for 28 itself: it is not among the numbers",
            lambda: pays("#### 28") == pays("#### 21 + 7") == 0,
        ),
        (
            "pay nothing for a number that is used twice",
            lambda: pays("#### 7 + 7 + 7 + 7") == pays("#### 25 + 7 - 7 + 3") == 0,
        ),
        (
            "pay 1 where it is given twice",
            lambda: pays("#### 7 * 3 + 7", (7, 7, 3)) == 1,
        ),
        (
            "take 25 for one number, not for a 2 and a 5",
            lambda: pays("#### 25 + 3", (2, 5, 3)) == 0,
        ),
    )


def _is_exact_arithmetic(pays):
    """It makes it exactly, with the four signs and brackets, and is nothing else."""
    return (
        (
            "be exact: 24 is 8 / (3 - 8 / 3)",
            lambda: pays("#### 8 / (3 - 8 / 3)", (3, 3, 8, 8), 24) == 1,
        ),
        (
            "not take nearly for exactly",
            lambda: pays("#### 25 + 3 + 1 / 99", (25, 3, 1, 99)) == 0,
        ),
        (
            "not take nearly for exactly, however near",
            lambda: pays("#### 25 + 3 + 1 / 99999999999", (25, 3, 1, 99999999999)) == 0,
        ),
        (
            "take 2.5 for a number that is not given, and .5 as well",
            lambda: (
                pays("#### 2.5 * 8", (2, 5, 8), 20) == 0
                and pays("#### .5 * 8", (5, 8), 4) == 0
                and pays("#### 7.3 + 25", (25, 7, 3), Fraction(323, 10)) == 0
            ),
        ),
        (
            "know no other signs than + - * / and brackets: 3 ** 3 + 1 is no sum",
            lambda: pays("#### 3 ** 3 + 1", (3, 3, 1)) == 0,
        ),
        (
            "pay nothing for a calculation with more on its line: = 7, or words",
            lambda: (
                not any(
                    pays(f"#### {line}")
                    for line in ("25 + 3 = 7", "25 + 3 of course", "not 25 + 3")
                )
            ),
        ),
        (
            "run no code: (lambda: 25 + 3)() is no calculation",
            lambda: pays("#### (lambda: 25 + 3)()") == 0,
        ),
    )


def _reads_the_last_line(pays):
    """Where in a text the calculation is looked for."""
    return (
        (
            "pay nothing without a ####; three # are a heading",
            lambda: pays("25 + 3") == pays("### 25 + 3") == 0,
        ),
        (
            "look at the last ####, and at its line only",
            lambda: (
                pays("#### 25 + 7\n#### 25 + 3") == 1
                and pays("#### 25 + 3\n25 and 3 are 28.") == 1
                and pays("#### 25 + 3\n#### none") == 0
            ),
        ),
    )


def _some_made():
    """(text, numbers, target, what it is paid): right, wrong, not given, used twice."""
    rng = np.random.default_rng(5)
    for kind in [0, 1, 2, 3] * 5:
        a, b, c, d = rng.choice(np.arange(2, 60), 4, replace=False).tolist()
        written = (f"{c}", f"{c}", f"{d + 60}", f"{c}+{a}-{a}")[kind]
        target = a * b + (d + 60 if kind == 2 else c) + (kind == 1)
        yield f"I use {d}.\n#### {a}*{b}+{written}", (a, b, c, d), target, kind == 0


def check_weights(weights) -> Check:
    """Weights under which being right is worth more than all style together."""
    names = {"correct", "format_reward", "annotations_hold", "length_penalty"}

    def as_paid():
        """As `RewardSet` has them, in float32."""
        with np.errstate(over="ignore"):  # what is too large is infinite there
            return [float(np.float32(weight)) for weight in weights.values()]

    def margin():
        worst_right = weights["correct"] - weights["length_penalty"]
        best_wrong = weights["format_reward"] + weights["annotations_hold"]
        return worst_right - best_wrong

    return check_properties(
        ("have one weight for each of the four", lambda: set(weights) == names),
        ("be finite, in float32 too", lambda: all(map(math.isfinite, as_paid()))),
        ("pay something for each: weights above 0", lambda: min(as_paid()) > 0),
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

    return check_properties(
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
HARD_TEXTS += ["#### " + "9" * 5000]
# Sums without an operator, as many ways as there are to write nothing.
EMPTY = ["1=1", "37=37", "12=12", "-1=-1", "+1=1", "1.0=1", " 1=1", "1 =1", "(1)=1"]
EMPTY += ["(-1)=-1", "(+37)=37", "--1=1", "- 1=-1", "((1))=1", "-(-1)=1", "-(1)=-1"]


def check_shown_work(answer) -> Check:
    """A reward for calculations that the cheat cannot collect."""

    def score(text, gold=GOLD):
        columns = {"answer": [gold], "level": [2], "names": [["Mia"]]}
        (value,) = answer(["q"], [text], **columns)
        return value

    return check_properties(
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
            "pay less than 1 where such a sum stands beside a true one",
            lambda: all(
                score(text) < 1
                for e in EMPTY
                for text in (f"<<{e}>> {GOLD}", f"<<30+7=37>>37 <<{e}>>\n#### 37")
            ),
        ),
        (
            "look at all sums: one false sum, first or last, costs the full point",
            lambda: (
                score("<<6*5=30>>30 <<30+7=35>>35\n#### 37") < 1
                and score("<<6*5=35>>35 <<30+7=37>>37\n#### 37") < 1
            ),
        ),
        (
            "look at all sums, the middle ones of five as well",
            lambda: all(score(text) < 1 for text in _one_false_of_five()),
        ),
        (
            "not be led astray by < and = in the words",
            lambda: score("As 4 <5=5, <<6*5=30>>30 <<30+7=37>>37\n#### 37") == 1,
        ),
    )


def _one_false_of_five():
    """Right answers with five sums, of which one does not hold: each in its turn."""
    sums = [f"<<{n}+2={n + 2}>>{n + 2}" for n in (27, 29, 31, 33, 35)]
    for i in range(5):
        false = [*sums[:i], f"<<{27 + 2 * i}+2=30>>30", *sums[i + 1 :]]
        yield " ".join(false) + "\n#### 37"


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
