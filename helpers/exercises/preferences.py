"""Self-checks of notebook 08b: pairs, and the gradient of DPO's loss."""

import numpy as np

from helpers.exercises.check import Check, check_properties

_BARE = ("… has 7 … .\n#### 7", "… loses 7 … .\n#### 7", "They have 7.\n#### 7")


def check_make_pairs(answer) -> Check:
    """Pairs of a group: of two answers, the one with fewer slips comes first."""
    rng = np.random.default_rng(8)
    slips = [rng.integers(4, size=9).tolist() for _ in range(40)]

    def pairs(answers):
        return sorted(tuple(pair) for pair in answer(answers))

    properties = {
        "put the answer with fewer slips first": [_group(0, 1), _group(1, 0)],
        "leave out two answers with equally many slips": [_group(1, 0, 1)],
        "pair answers that both have slips, too": [_group(2, 1, 3)],
        "pair only answers that are equal once names and things are blanked": [
            _group(0, 1, 2, bare=_BARE)
        ],
        "be right for any group": [
            _group(*each, bare=rng.choice(_BARE, 9).tolist()) for each in slips
        ],
    }
    return check_properties(properties, pairs, _all_pairs)


def _group(*slips, bare=_BARE[:1] * 9):
    """Answers "0", "1", … with so many slips, as the argument of a case."""
    rows = enumerate(zip(slips, bare, strict=False))
    return ([{"text": str(i), "slips": n, "bare": b} for i, (n, b) in rows],)


def _all_pairs(answers):
    return sorted(
        (chosen["text"], rejected["text"])
        for chosen in answers
        for rejected in answers
        if chosen["slips"] < rejected["slips"] and chosen["bare"] == rejected["bare"]
    )


def check_dpo_gradient(answer) -> Check:
    """The gradient of DPO's loss with respect to log-probabilities of answers."""
    rng = np.random.default_rng(8)
    old = rng.uniform(-20, -5, (5, 2)).astype(np.float32)
    new = old + rng.normal(0, 3, old.shape).astype(np.float32)
    settled = old + np.array([400, 0], np.float32)

    def gradient(new, old, beta):
        margin = beta * ((new - old) @ np.array([1, -1]))
        pull = beta / (1 + np.exp(margin)) / len(margin)
        return np.stack([-pull, pull], axis=1)

    properties = {
        "be negative for a chosen answer and positive for a rejected one": lambda: (
            np.sign(answer(new[:1], old[:1], 0.1)).tolist() == [[-1, 1]]
        ),
        "be half of beta where the policy is the reference": [(old[:1], old[:1], 0.3)],
        "be almost 0 for a pair with a large margin": lambda: (
            np.abs(answer(settled, old, 0.1)).max() < 1e-6
        ),
        "be the gradient of the mean for several pairs": [
            (new, old, beta) for beta in (0.1, 1.5)
        ],
    }
    return check_properties(properties, answer, gradient, 1e-4)
