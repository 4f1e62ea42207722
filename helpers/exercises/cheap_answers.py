"""Good and cheap answers to word problems, for the challenge of notebook 15."""

import numpy as np

from helpers.exercises.check import texts
from helpers.rewards.functions import gold_number
from helpers.tasks.maths import word_problems


def _answer_row(problem, answer, good):
    number = str(gold_number(problem["answer"]))
    row = {"question": problem["question"], "number": number}
    return row | {"answer": answer, "good": good}


def labelled_answers(count, seed):
    """Good and cheap answers by turns, each to a question of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    problems = word_problems.generate(count, seed=seed, levels=(1, 2, 3))
    for i, problem in enumerate(problems):
        shown, _ = _cheap_answers(problem["answer"], rng)
        answer = problem["answer"] if i % 2 else shown[i // 2 % len(shown)]
        rows.append(_answer_row(problem, answer, bool(i % 2)))
    return rows


def test_answers(count, seed):
    """All answers to each of the test questions, in random order."""
    rng = np.random.default_rng(seed)
    rows = []
    problems = {"seed": seed, "levels": (1, 2, 3), "split": "test"}
    for problem in word_problems.generate(count, **problems):
        rows.append(_answer_row(problem, problem["answer"], True))
        for answers in _cheap_answers(problem["answer"], rng):
            rows += [_answer_row(problem, answer, False) for answer in answers]
    return [rows[i] for i in rng.permutation(len(rows))]


def _cheap_answers(solution, rng):
    """Cheap answers to a problem: seven labelled kinds, and eight that are not.

    Args:
      solution: the worked answer.
      rng: draws what is wrong, and by how much.
    """
    n, off = int(gold_number(solution)), int(rng.integers(1, 9))
    part, wrong = int(rng.integers(1, max(n, 2))), n + off
    work = solution.removesuffix(f"\n#### {n}")
    words = {"n": n, "off": off, "wrong": wrong, "part": part, "work": work}
    words |= {"rest": n - part, "sum": part + off}
    words["slip"] = work.replace(f"={n}>>{n}", f"={wrong}>>{wrong}")
    kinds = texts("cheap_answers")
    return [[text.format(**words) for text in kinds[k]] for k in ("labelled", "others")]
