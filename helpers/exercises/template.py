"""Self-checks of notebooks/template.py: the example to copy for a new notebook."""

import numpy as np

from helpers.exercises.check import Check, filled, judge


def check_guess(guess) -> Check:
    """A prediction: how many of the two groups of answers teach something."""
    return judge(
        ("be filled in", filled(guess, what="your guess")),
        ("be a whole number", lambda: guess == int(guess)),
        ("count questions, of which there are two", lambda: 0 <= guess <= 2),
        ("count only groups whose answers differ", lambda: guess == 1),
    )


def check_group_advantages(answer) -> Check:
    """The advantages of GRPO: centred within each prompt's group."""
    rewards_PG = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    return judge(
        (
            "keep the shape (prompts, answers)",
            lambda: answer(rewards_PG).shape == (2, 4),
        ),
        ("centre each prompt at 0", lambda: np.allclose(answer(rewards_PG).sum(1), 0)),
        ("give a tied group only zeros", lambda: not answer(rewards_PG)[1].any()),
        ("keep right above wrong", lambda: answer(rewards_PG)[0, 0] > 0),
    )


def check_negative_for_right(rewards_G) -> Check:
    """Breaking it: rewards for which a right answer is pushed down."""

    def pushed_down():
        advantages_G = np.asarray(rewards_G) - np.mean(rewards_G)
        return (advantages_G[np.asarray(rewards_G) == 1] < 0).any()

    return judge(
        ("have at least two answers", lambda: len(rewards_G) >= 2),
        ("have a right answer, of reward 1", lambda: 1 in list(rewards_G)),
        ("push a right answer down", pushed_down),
    )
