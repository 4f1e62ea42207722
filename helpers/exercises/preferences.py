"""Self-checks of notebook 08b."""

import math

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, leaves_alone

BARE = "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.\n#### 7"
# Texts that are not BARE, and share words, lines, a beginning or an end with it.
UNLIKE = (
    "… has <<3+4=7>>7 beads.\nSo … has 4 and 3.\n#### 7",
    "So … has 3 and 4.\n… has <<3+4=7>>7 beads.\n#### 7",
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.\n#### 7\nYes.",
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.",
    "… has <<3+4=7>>7 beads.\nSo … has 3 and 4.\n#### 8",
    "… loses <<9-2=7>>7.\n#### 7",
)


def check_make_pairs(answer) -> Check:
    """Pairs of a group: preferred answers beside those that differ in the verdict."""

    def group(*judged):
        """Answers "0", "1", …; judged are (verdict, what else they say)."""
        names = ("text", "verdict", "bare")
        each = enumerate(judged)
        return [dict(zip(names, (str(i), *rest), strict=True)) for i, rest in each]

    def pairs(*judged):
        return sorted(tuple(map(int, pair)) for pair in answer(group(*judged)))

    yes, no, neither = (True, BARE), (False, BARE), (None, BARE)
    low, *_, high = UNLIKE
    return check_properties(
        (
            "give a list",
            lambda: isinstance(answer(group(no, yes)), list),
        ),
        (
            "put the preferred answer first, the other one second",
            lambda: pairs(no, yes) == [(1, 0)] and pairs(yes, no) == [(0, 1)],
        ),
        (
            "leave out answers without a verdict: a wrong answer is no rejected one",
            lambda: (
                pairs(neither, yes, neither, no) == [(1, 3)]
                and pairs(neither, no, yes) == [(2, 1)]
            ),
        ),
        (
            "make no pair of answers that differ in more than the names",
            lambda: (
                pairs(yes, (False, low), (False, high)) == []
                and pairs((True, low), (True, high), no) == []
                and pairs((True, high), (False, high), (True, low)) == [(0, 1)]
                and all(
                    pairs(yes, (False, text)) == pairs((True, text), no) == []
                    for text in UNLIKE
                )
            ),
        ),
        (
            "make every pair that there is",
            lambda: pairs(no, yes, yes, no) == [(1, 0), (1, 3), (2, 0), (2, 3)],
        ),
        (
            "give an empty list for a group that has no pair",
            lambda: pairs(no, neither) == pairs(yes, yes) == pairs() == [],
        ),
        (
            "leave the answers as they are",
            lambda: leaves_alone(answer, group(neither, no, yes)),
        ),
    )


def check_dpo_loss(answer) -> Check:
    """DPO's loss of a few pairs, with padding."""
    new, old, mask = _pairs()
    others, alone = _pairs(9, 5), _pairs(7, 1)
    full = np.ones_like(mask)

    def loss(*given, **beta):
        return float(answer(*given, **beta))

    def agrees(beta, pairs=(new, old, mask)):
        return np.isclose(loss(*pairs, beta=beta), _dpo(*pairs, beta))

    better = old.copy()
    better[:, 0] += 1
    far = old.copy()
    far[:, 0] -= 100  # at each of 5 tokens
    garbage = np.where(mask > 0, new, -50).astype(np.float32)
    return check_properties(
        ("return one number", lambda: np.shape(answer(new, old, mask)) == ()),
        (
            "be log 2 where nothing has moved",
            lambda: np.isclose(loss(old, old, full), math.log(2)),
        ),
        (
            "fall when the chosen answers become likelier",
            lambda: loss(better, old, full) < math.log(2),
        ),
        (
            "rise when the rejected answers do",
            lambda: loss(better[:, ::-1], old[:, ::-1], full) > math.log(2),
        ),
        (
            "leave padding out",
            lambda: np.isclose(loss(garbage, old, mask), loss(new, old, mask)),
        ),
        (
            "add the log-probabilities of an answer up, not average them",
            lambda: np.isclose(
                loss(better, old, full, beta=0.3), math.log1p(math.exp(-0.3 * 5))
            ),
        ),
        ("be right for pairs of any kind", lambda: agrees(0.1) and agrees(1.5)),
        (
            "take the mean over as many pairs as there are, one or five",
            lambda: agrees(0.1, alone) and agrees(1.5, others),
        ),
        (
            "stay finite far on the wrong side: 500 for a margin of -500",
            lambda: np.isclose(loss(far, old, full, beta=1.0), 500),
        ),
        (
            "take beta = 0.1 where nobody says another",
            lambda: np.isclose(loss(new, old, mask), _dpo(new, old, mask, 0.1)),
        ),
    )


def _pairs(seed=8, count=3):
    """Log-probabilities (new, old) and mask of up to 5 pairs of up to 5 tokens."""
    rng = np.random.default_rng(seed)
    old = rng.uniform(-3, -0.5, (count, 2, 5)).astype(np.float32)
    new = old + rng.normal(0, 0.8, old.shape).astype(np.float32)
    lengths = np.array([[5, 2], [1, 4], [3, 5], [4, 4], [2, 3]])[:count]
    mask = (np.arange(5) < lengths[..., None]).astype(np.float32)
    return new, old, mask


def _dpo(new, old, mask, beta):
    """The loss, pair by pair, by NumPy."""
    found = []
    for pair in range(len(mask)):
        chosen, rejected = ((new - old) * mask)[pair].sum(axis=-1)
        found.append(np.log1p(np.exp(-beta * (chosen - rejected))))
    return np.mean(found)


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
