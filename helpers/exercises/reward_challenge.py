"""The challenge of notebook 15: a reward that pays a good answer more than a cheap one.

Answers are good, where shown work leads to the right number, or cheap: bought, bare,
wrong, or without the last line. The reward is judged on pairs of a good and a cheap
answer to one question: it has to pay more for the good one. Eight of the fifteen ways
to be cheap are in no labelled answer. The reward sees one answer at a time, in random
order, so that it can compare none with another.
"""

import numpy as np

from helpers.exercises import challenge
from helpers.exercises.check import judge
from helpers.rewards.functions import gold_number
from helpers.tasks.maths import word_problems

QUESTIONS = 60  # held out, of the checker's own
LEVELS = (1, 2, 3)


def own_reward(attempt, seed: int = 0, *, to_beat=0.90, budget=20) -> challenge.Outcome:
    """Tries `attempt(answers)`, a reward: `(prompts, completions, number)` -> numbers.

    `answers.take(n)` gives rows with a question, its number, an answer, and whether it
    is good. The reward is asked of one answer at a time.
    """
    meter = challenge.Meter(budget, "labelled answers")
    rows = challenge.Rows(_labelled(budget, 71 + 100 * seed), meter)
    held = _held_out(challenge.HELD_OUT + seed)
    found: dict = {"reached": None}
    untouched = challenge.watched()

    def written():
        found["reward"] = attempt(rows)
        return not meter.refused

    def pays():
        found["paid"] = []
        for row in held:
            told = [row["question"]], [row["answer"]]
            (paid,) = found["reward"](*told, number=[row["number"]])
            found["paid"].append(float(paid))
        return np.isfinite(found["paid"]).all() and not meter.refused

    def beaten():
        found["reached"] = _ordered(held, found["paid"])
        print(
            f"{found['reached']:.1%} of the held-out pairs, "
            f"{meter.spent} of {budget} {meter.what}"
        )
        return found["reached"] > to_beat

    verdict = judge(
        (f"stay within {budget} {meter.what}", written),
        ("return a function that gives one finite number for each answer", pays),
        (
            "leave the functions of the course as they are",
            untouched,
        ),
        (f"order more than {to_beat:.0%} of the held-out pairs", beaten),
    )
    counted = (found["reached"], to_beat, meter.spent, meter.budget)
    return challenge.Outcome(verdict.passed, verdict.message, *counted)


def _ordered(rows, paid):
    """The share of pairs whose good answer is paid more than the cheap one."""
    good = {r["question"]: p for r, p in zip(rows, paid, strict=True) if r["good"]}
    pairs = [
        good[row["question"]] > pay
        for row, pay in zip(rows, paid, strict=True)
        if not row["good"]
    ]
    return sum(pairs) / len(pairs)


def _row(problem, answer, good):
    number = str(gold_number(problem["answer"]))
    row = {"question": problem["question"], "number": number}
    return row | {"answer": answer, "good": good}


def _labelled(count, seed):
    """Good and cheap answers by turns, each to a question of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, problem in enumerate(
        word_problems.generate(count, seed=seed, levels=LEVELS)
    ):
        shown, _ = _cheap(problem["answer"], rng)
        answer = problem["answer"] if i % 2 else shown[i // 2 % len(shown)]
        rows.append(_row(problem, answer, bool(i % 2)))
    return rows


def _held_out(seed):
    """All answers to each of the checker's own questions, in random order."""
    rng = np.random.default_rng(seed)
    drawn = {"seed": seed, "levels": LEVELS, "split": "test"}
    rows = []
    for problem in word_problems.generate(QUESTIONS, **drawn):
        rows.append(_row(problem, problem["answer"], True))
        for ways in _cheap(problem["answer"], rng):
            rows += [_row(problem, answer, False) for answer in ways]
    return [rows[i] for i in rng.permutation(len(rows))]


def _cheap(said, rng):
    """Cheap answers to a problem: those of labelled kinds, and those of others.

    Args:
      said: the worked answer.
      rng: draws what is wrong, and by how much.
    """
    n, off = int(gold_number(said)), int(rng.integers(1, 9))
    part, wrong = int(rng.integers(1, max(n, 2))), n + off
    line = f"\n#### {n}"
    work = said.removesuffix(line)
    slip = work.replace(f"={n}>>{n}", f"={wrong}>>{wrong}")
    labelled = [
        f"#### {n}",
        f"<<1=1>>1{line}",
        f"It is <<{n}+0={n}>>{n}.{line}",
        f"{slip}\n#### {wrong}",
        f"{work}\n#### {wrong}",
        f"{said}\nThat was easy.",
        f"#### {wrong}",
    ]
    others = [
        f"It is <<{n}*1={n}>>{n}.{line}",
        f"It is <<{wrong}-{off}={n}>>{n}.{line}",
        f"It is <<{part}+{n - part}={n}>>{n}.{line}",
        f"It is <<2*{n}/2={n}>>{n}.{line}",
        f"{slip}{line}",
        f"{work}\nAnswer: {n}",
        f"It is <<{part}+{off}={part + off}>>{part + off}.\n#### {wrong}",
        f"{work}\n<<1=1>>1{line}",
    ]
    return labelled, others
