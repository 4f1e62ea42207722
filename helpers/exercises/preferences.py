"""Self-checks of notebook 08b: pairs, DPO's loss, and where it stops."""

import math

import numpy as np

from helpers.exercises.check import Check, agrees, check_properties, filled

_TEXTS = (
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.\n#### 7",
    "… has <<3+4=7>>7 beads.\nSo … has 4 and 3.\n#### 7",
    "So … has 3 and 4.\n… has <<3+4=7>>7 beads.\n#### 7",
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.",
    "… loses <<9-2=7>>7.\n#### 7",
)


def check_make_pairs(answer) -> Check:
    """Pairs of a group: preferred answers beside those that differ in the verdict."""

    def group(*verdicts, bare=_TEXTS[:1] * 9):
        """Answers "0", "1", … with these verdicts."""
        names = ("text", "verdict", "bare")
        rows = zip(map(str, range(9)), verdicts, bare, strict=False)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def pairs(answers):
        return sorted((int(chosen), int(other)) for chosen, other in answer(answers))

    def all_pairs(answers):
        return [
            (int(chosen["text"]), int(rejected["text"]))
            for chosen in answers
            for rejected in answers
            if chosen["verdict"] and rejected["verdict"] is False
            if chosen["bare"] == rejected["bare"]
        ]

    rng = np.random.default_rng(8)
    groups = [
        group(
            *rng.choice([True, False, None], size).tolist(),
            bare=rng.choice(_TEXTS, size).tolist(),
        )
        for size in [0, 1, *[9] * 40]
    ]
    return check_properties(
        ("give a list", lambda: isinstance(answer(group(False, True)), list)),
        (
            "put the preferred answer first, the other one second",
            lambda: pairs(group(False, True)) == [(1, 0)] == pairs(group(False, True)),
        ),
        (
            "leave out answers without a verdict: a wrong answer is no rejected one",
            lambda: pairs(group(None, True, None, False)) == [(1, 3)],
        ),
        (
            "make no pair of answers that differ in more than the names",
            lambda: pairs(group(True, False, bare=_TEXTS)) == [],
        ),
        (
            "make every pair that there is",
            lambda: len(pairs(group(False, True, True, False))) == 4,
        ),
        (
            "be right for any group",
            lambda: agrees(pairs, all_pairs, [(each,) for each in groups], 0),
        ),
    )


def check_dpo_loss(answer) -> Check:
    """DPO's loss of a few pairs, with padding."""
    rng = np.random.default_rng(8)
    cases = [_pairs(rng, count) + beta for count in (1, 3, 5) for beta in ((), (1.5,))]
    old = cases[-1][1]
    full = np.ones_like(old)
    better, far = old.copy(), old.copy()
    better[:, 0] += 1
    far[:, 0] -= 100  # at each of 5 tokens

    def dpo(new, old, mask, beta=0.1):
        chosen, rejected = np.moveaxis(((new - old) * mask).sum(axis=-1), 1, 0)
        return np.mean(np.log1p(np.exp(-beta * (chosen - rejected))))

    return check_properties(
        ("return one number", lambda: np.shape(answer(old, old, full)) == ()),
        (
            "be log 2 where nothing has moved",
            lambda: np.isclose(answer(old, old, full), math.log(2)),
        ),
        (
            "fall when the chosen answers become likelier, not the rejected ones",
            lambda: answer(better, old, full) < math.log(2),
        ),
        (
            "add the log-probabilities of an answer up, not average them",
            lambda: np.isclose(
                answer(better, old, full, beta=0.3), math.log1p(math.exp(-0.3 * 5))
            ),
        ),
        (
            "be right for any number of pairs without their padding, by default with "
            "beta = 0.1",
            lambda: agrees(answer, dpo, cases),
        ),
        (
            "stay finite far on the wrong side: 500 for a margin of -500",
            lambda: np.isclose(answer(far, old, full, beta=1.0), 500),
        ),
    )


def _pairs(rng, count):
    """Log-probabilities (new, old) and mask of pairs of 1 to 5 tokens."""
    old = rng.uniform(-3, -0.5, (count, 2, 5)).astype(np.float32)
    new = old + rng.normal(0, 0.8, old.shape).astype(np.float32)
    lengths = rng.integers(1, 6, (count, 2, 1))
    return new, old, (np.arange(5) < lengths).astype(np.float32)


def check_nats(answer) -> Check:
    """A prediction: where DPO stops when four judges of five agree."""
    return check_properties(
        ("be filled in", filled(answer, what="a number of nats")),
        ("be a number", lambda: float(answer) == answer),
        ("be above 0: most judges prefer A", lambda: answer > 0),
        (
            "be where the pulls of the five judges add up to 0",
            lambda: abs(1 / (1 + math.exp(-0.2 * answer)) - 0.8) < 0.004,
        ),
    )
