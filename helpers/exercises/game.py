"""Self-checks of notebook 10b: what a first guess is worth, and Nim's `step`."""

import functools
import random

from helpers.exercises.check import Check, check_properties
from helpers.tasks import games


def check_most_wins(answer) -> Check:
    """Exercise 1: the most secrets that can be found after a first guess."""
    rng = random.Random(0)
    sizes = [(rng.randint(1, 70), rng.randint(1, 7)) for _ in range(60)]
    properties = {
        "be 1 where there is one turn": [(3, 9, 1)],
        "be all 31 where five turns begin with 16": [(16, 31, 5)],
        "be fewer where the first guess is off the middle": [(15, 31, 5), (4, 31, 5)],
        "be all numbers where turns abound": [(1, 5, 5), (9, 9, 9)],
        "be right for any game": [
            (rng.randint(1, numbers), numbers, turns) for numbers, turns in sizes
        ],
    }
    return check_properties(properties, answer, _most_wins)


def _most_wins(first, numbers, turns):
    return 1 + _best(first - 1, turns - 1) + _best(numbers - first, turns - 1)


@functools.cache
def _best(numbers, turns):
    """The most of so many numbers that are found in so many turns."""
    if not (numbers and turns):
        return 0
    return max(_most_wins(first, numbers, turns) for first in range(1, numbers + 1))


def check_nim(answer) -> Check:
    """Exercise 2: a `Nim` with a `step` of the learner's own."""

    def steps(texts, stones, seed, game=answer):
        """What the game says to each text; nothing more once it is over."""
        there, lines = game(), []
        there.reset({"stones": stones}, seed)
        for text in texts:
            messages, done, reward = there.step(text)
            lines.append(f"{[m['content'] for m in messages]} {bool(done)} {reward:g}")
            if done:
                break
        return " ".join(lines)

    def case(*texts, stones=8, seed=0):
        return texts, stones, seed

    reference = functools.partial(steps, game=games.Nim)
    rng = random.Random(1)
    properties = {
        "end the game without a reward after a move against the rules": [
            case(text, stones=stones)
            for text, stones in (("0", 8), ("4", 8), ("two", 8), ("", 8), ("3", 2))
        ],
        "pay 1 and end the game for the last stone": [
            case(str(stones), stones=stones) for stones in (1, 2, 3)
        ],
        "take the stones, let the opponent take some, and reply such as `5 left`": [
            case(str(taken), seed=seed) for taken in (1, 2, 3) for seed in range(5)
        ],
        "end the game without a reward where the opponent takes the last stone": [
            case("1", stones=4, seed=seed) for seed in range(12)
        ],
        "be right for any game": [
            case(*rng.choices("123", k=5), stones=rng.randint(4, 10), seed=seed)
            for seed in range(60)
        ],
    }
    return check_properties(properties, steps, reference)
