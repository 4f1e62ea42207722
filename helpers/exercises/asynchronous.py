"""Self-checks of notebook 13b: staleness, the decoupled gain, what is lost.

Those of JobSets are in `helpers.exercises.jobsets`.
"""

import math

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, leaves_alone, whole
from helpers.exercises.jobsets import ORDER, check_chips, manifests

__all__ = [
    "ORDER",
    "check_chips",
    "check_decoupled_gain",
    "check_lost",
    "check_staleness_rule",
    "manifests",
]


def check_staleness_rule(answer) -> Check:
    """The buffer in one function: what is learned, what is asked again, what may go."""

    def learned(*given):
        return list(answer(*given)[0])

    def again(*given):
        return list(answer(*given)[1])

    rng = np.random.default_rng(13)
    return check_properties(
        ("give three things", lambda: len(answer(0, {}, 0, 1, 0)) == 3),
        (
            "let pieces × (η + 1) be under way, and no more: those out count",
            lambda: (
                [answer(out, {}, 7, 3, 1)[2] for out in (0, 2, 6)] == [6, 4, 0]
                and answer(0, {}, 7, 2, 0)[2] == 2
            ),
        ),
        (
            "count what is back and may still be learned from as under way",
            lambda: answer(1, {4: 7, 5: 6}, 7, 2, 1)[2] == 1,
        ),
        (
            "ask a piece again that is η + 1 versions old, and not one of η",
            lambda: again(0, {3: 4, 4: 5, 5: 7}, 7, 1, 2) == [3],
        ),
        (
            "leave a piece that is too old out of the update",
            lambda: 3 not in learned(0, {3: 4, 4: 5, 5: 7}, 7, 2, 2),
        ),
        (
            "not count what is too old as under way: it can go out anew",
            lambda: answer(0, {3: 4}, 7, 1, 2)[2] == 3,
        ),
        (
            "learn nothing until enough pieces are back",
            lambda: learned(0, {5: 7}, 7, 2, 1) == [],
        ),
        (
            "take no more pieces than an update has",
            lambda: len(learned(0, {5: 7, 6: 7, 7: 7}, 7, 2, 1)) == 2,
        ),
        (
            "take what was sampled with the oldest weights first, by number if equal",
            lambda: learned(0, {5: 7, 8: 6, 7: 6, 6: 7}, 7, 3, 1) == [7, 8, 5],
        ),
        (
            "list what is asked again in the order of its numbers",
            lambda: again(0, {9: 1, 3: 2, 5: 0}, 7, 1, 2) == [3, 5, 9],
        ),
        (
            "be right for any pieces",
            lambda: all(_same_rule(answer, _situation(rng)) for _ in range(200)),
        ),
        (
            "leave what it is given as it is",
            lambda: leaves_alone(answer, 0, {3: 1, 4: 7}, 7, 1, 2),
        ),
    )


def _situation(rng):
    """Random (out, back, version, pieces, limit), not more under way than may be."""
    version, pieces, limit = map(int, rng.integers((4, 1, 0), (9, 4, 4)))
    most = pieces * (limit + 1)
    numbers = rng.permutation(20)[: rng.integers(0, most + 1)].tolist()
    back = {number: int(rng.integers(0, version + 1)) for number in numbers}
    return int(rng.integers(0, most - len(back) + 1)), back, version, pieces, limit


def _same_rule(answer, given):
    out, back, version, pieces, limit = given
    old, kept = [], []
    for number in sorted(back):
        (old if back[number] + limit < version else kept).append(number)
    kept.sort(key=back.__getitem__)  # stable: by number where versions are equal
    enough = kept[:pieces] if len(kept) >= pieces else []
    room = pieces + pieces * limit - out - len(kept)
    learn, again, free = answer(out, dict(back), version, pieces, limit)
    return list(learn) == enough and list(again) == old and free == room


def check_decoupled_gain(answer) -> Check:
    """The gain of old answers: a truncated weight, and a clip around the proximal."""

    def gain(now, proximal, behaviour, advantage=1.0, **settings):
        """Of one token, from probabilities."""
        logs = [np.log(np.array([p], np.float32)) for p in (now, proximal, behaviour)]
        return float(np.asarray(answer(*logs, np.array([advantage]), **settings))[0])

    def near(found, value):
        return np.isclose(found, value, rtol=1e-4)

    rng = np.random.default_rng(4)
    logs = np.log(rng.uniform(0.05, 0.9, (3, 2, 4, 6))).astype(np.float32)
    advantages = rng.normal(size=(2, 4, 6)).astype(np.float32)
    return check_properties(
        (
            "give a number for each token",
            lambda: np.shape(answer(*logs, advantages)) == (2, 4, 6),
        ),
        (
            "be the advantage where all three policies agree",
            lambda: near(gain(0.3, 0.3, 0.3, 0.7), 0.7),
        ),
        (
            "count a token half that is now half as likely as when it was sampled",
            lambda: near(gain(0.2, 0.2, 0.4), 0.5),
        ),
        (
            "count it 1.5 times where it is 1.5 times as likely, without a clip",
            lambda: near(gain(0.6, 0.6, 0.4), 1.5),
        ),
        ("count no token more than `cap` times", lambda: near(gain(0.9, 0.9, 0.1), 2)),
        (
            "stop paying where the update has moved beyond 1 + high",
            lambda: near(gain(0.6, 0.3, 0.3), 1.28),
        ),
        (
            "stop below 1 - low for a negative advantage",
            lambda: near(gain(0.1, 0.4, 0.4, -1.0), -0.8),
        ),
        (
            "go on charging a bad token that became likelier",
            lambda: near(gain(0.9, 0.3, 0.3, -1.0), -3),
        ),
        (
            "go on paying for a good token that became less likely",
            lambda: near(gain(0.1, 0.4, 0.4), 0.25),
        ),
        (
            "be right for tokens of any kind",
            lambda: all(
                np.allclose(
                    answer(*logs, advantages, cap, low, high),
                    _gain(*logs, advantages, cap, low, high),
                    rtol=1e-4,
                )
                for cap, low, high in ((2.0, 0.2, 0.28), (1.0, 0.1, 0.5), (5, 0.3, 0.1))
            ),
        ),
    )


def _gain(now, proximal, behaviour, advantages, cap, low, high):
    """The gain, token by token, by Python's floats."""
    found = np.zeros(now.shape)
    for at in np.ndindex(now.shape):
        ratio = math.exp(now[at]) / math.exp(proximal[at])
        weight = math.exp(proximal[at]) / math.exp(behaviour[at])
        advantage = float(advantages[at])
        ends = [ratio * advantage, max(min(ratio, 1 + high), 1 - low) * advantage]
        found[at] = min(weight, cap) * min(ends)
    return found


def check_lost(after_worker, after_trainer, lost) -> Check:
    """A prediction: what a killed worker and a killed trainer cost."""
    told = after_worker, after_trainer, lost

    def numbers(pieces):
        """A set of piece numbers, from any collection of whole numbers."""
        found = list(pieces)
        if not whole(*found):
            raise ValueError("a piece is a whole number")
        return {int(number) for number in found}

    return check_properties(
        ("be filled in", filled(*told, what="the numbers of pieces")),
        (
            "name pieces by their numbers, as in {23, 24}",
            lambda: numbers(after_worker) is not None and numbers(after_trainer),
        ),
        (
            "ask again, after a worker's end, all that this worker held",
            lambda: 23 in numbers(after_worker),
        ),
        (
            "touch nothing that others hold, or that is back, when a worker ends",
            lambda: numbers(after_worker) == {23},
        ),
        (
            "keep what the checkpoint has learned: no piece is learned twice",
            lambda: min(numbers(after_trainer)) >= 20,
        ),
        (
            "ask again what was learned after the checkpoint: those weights are gone",
            lambda: {20, 21, 22} <= numbers(after_trainer),
        ),
        (
            "ask again what was out or back when the trainer ended",
            lambda: {23, 24, 25} <= numbers(after_trainer),
        ),
        (
            "name no piece that nobody has drawn yet",
            lambda: max(numbers(after_trainer)) == 25,
        ),
        (
            "say how many pieces are never learned, as a whole number",
            lambda: whole(lost) and lost == 0,
        ),
    )
