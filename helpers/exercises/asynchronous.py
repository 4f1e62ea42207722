"""Self-checks of notebook 13b: the staleness rule, and the gain of old answers."""

import numpy as np

from helpers.exercises.check import Check, check_properties


def check_staleness_rule(answer) -> Check:
    """The buffer in one function: what to learn, what to sample again, what may go."""
    rng = np.random.default_rng(13)
    cases = [_situation(rng) for _ in range(300)]

    def rule(out, back, version, pieces, limit):
        old = [n for n in sorted(back) if back[n] + limit < version]
        fresh = sorted((back[n], n) for n in back if n not in old)
        learn = [n for _, n in fresh[:pieces]] if len(fresh) >= pieces else []
        return learn, old, pieces * (limit + 1) - out - len(fresh)

    def three(*case):
        learn, again, free = answer(*case)
        return list(learn), list(again), free

    properties = {
        "allow pieces × (η + 1) under way, counting those out and those fresh": [
            *[(out, {}, 7, 3, 1) for out in (0, 2, 6)],
            (1, {4: 7, 5: 6}, 7, 3, 1),
        ],
        "sample again what is more than η versions old": [
            (0, {3: 4, 4: 5, 5: 7}, 7, 3, 2)
        ],
        "learn from nothing until enough pieces are back": [(0, {5: 7}, 7, 2, 1)],
        "take the oldest version first, and the smaller number among equals": [
            (0, {5: 7, 8: 6, 7: 6, 6: 7}, 7, 3, 1)
        ],
        "be right for any pieces": cases,
    }
    return check_properties(properties, three, rule)


def _situation(rng):
    """Random (out, back, version, pieces, limit), not more under way than may be."""
    version, pieces, limit = map(int, rng.integers((4, 1, 0), (9, 4, 4)))
    most = pieces * (limit + 1)
    numbers = rng.permutation(20)[: rng.integers(0, most + 1)].tolist()
    back = {number: int(rng.integers(0, version + 1)) for number in numbers}
    return int(rng.integers(0, most - len(back) + 1)), back, version, pieces, limit


def check_decoupled_gain(answer) -> Check:
    """The gain of old answers: a truncated weight, and a clip around the proximal."""
    rng = np.random.default_rng(4)
    logs = tuple(np.log(rng.uniform(0.05, 0.9, (3, 2, 4, 6))).astype(np.float32))
    tokens = (*logs, rng.normal(size=(2, 4, 6)).astype(np.float32))
    cases = [tokens + rest for rest in ((), (1.0, 0.1, 0.5), (5, 0.3, 0.1))]

    def token(now, proximal, behaviour, advantage=1.0):
        """A case of one token, from probabilities."""
        logs = [np.log(np.array([p], np.float32)) for p in (now, proximal, behaviour)]
        return (*logs, np.array([advantage]))

    def decoupled(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
        ratio, weight = np.exp(now - proximal), np.exp(proximal - behaviour)
        clipped = np.clip(ratio, 1 - low, 1 + high)
        least = np.minimum(ratio * advantages, clipped * advantages)
        return np.minimum(weight, cap) * least

    properties = {
        "count a token half if it is now half as likely": [token(0.2, 0.2, 0.4)],
        "stop rewarding a token beyond a ratio of 1 + high": [token(0.6, 0.3, 0.3)],
        "keep penalizing a bad, now likely token": [token(0.9, 0.3, 0.3, -1.0)],
        "be right for any tokens": cases,
    }
    return check_properties(properties, answer, decoupled, 1e-4)
