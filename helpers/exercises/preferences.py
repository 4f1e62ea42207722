"""Self-checks of notebook 08b: pairs, and DPO's loss."""

import math

import numpy as np

from helpers.exercises.check import Check, check_properties

_BARE = (
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.\n#### 7",
    "… has <<3+4=7>>7 beads.\nSo … has 4 and 3.\n#### 7",
    "… loses <<9-2=7>>7.\n#### 7",
)


def check_make_pairs(answer) -> Check:
    """Pairs of a group: preferred answers beside those that differ in the verdict."""
    rng = np.random.default_rng(8)
    verdicts = [rng.choice([True, False, None], 9).tolist() for _ in range(40)]

    def pairs(answers):
        return sorted(tuple(pair) for pair in answer(answers))

    properties = {
        "put the preferred answer first, the other one second": [
            _group(False, True),
            _group(True, False),
        ],
        "leave out answers without a verdict: a wrong answer is no rejected one": [
            _group(None, True, None, False)
        ],
        "pair only answers that differ in names": [
            _group(True, False, False, bare=_BARE)
        ],
        "be right for any group": [
            _group(*each, bare=rng.choice(_BARE, 9).tolist()) for each in verdicts
        ],
    }
    return check_properties(properties, pairs, _all_pairs)


def _group(*verdicts, bare=_BARE[:1] * 9):
    """Answers "0", "1", … with these verdicts, as the argument of a case."""
    rows = enumerate(zip(verdicts, bare, strict=False))
    return ([{"text": str(i), "verdict": v, "bare": b} for i, (v, b) in rows],)


def _all_pairs(answers):
    return [
        (chosen["text"], rejected["text"])
        for chosen in answers
        for rejected in answers
        if chosen["verdict"] and rejected["verdict"] is False
        if chosen["bare"] == rejected["bare"]
    ]


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
        return np.mean(np.logaddexp(0, -beta * (chosen - rejected)))

    properties = {
        "fall when the chosen answers become likelier, not the rejected ones": lambda: (
            answer(better, old, full) < math.log(2)
        ),
        "add log-probabilities of an answer up, no average": [(better, old, full)],
        "be right for any number of pairs, without their padding": cases,
        "be 500 for a margin of -500, far on the wrong side": [(far, old, full, 1.0)],
    }
    return check_properties(properties, answer, dpo, 1e-4)


def _pairs(rng, count):
    """Log-probabilities (new, old) and mask of pairs of 1 to 5 tokens."""
    old = rng.uniform(-3, -0.5, (count, 2, 5)).astype(np.float32)
    new = old + rng.normal(0, 0.8, old.shape).astype(np.float32)
    lengths = rng.integers(1, 6, (count, 2, 1))
    return new, old, (np.arange(5) < lengths).astype(np.float32)
