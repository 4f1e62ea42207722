"""Self-checks of notebooks/template.py: the example to copy for a new notebook."""

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, leaves_alone, whole


def check_guess(guess) -> Check:
    """A prediction: how many of the two groups of answers teach something."""
    return check_properties(
        ("be filled in", filled(guess, what="your guess")),
        ("be a whole number", lambda: whole(guess)),
        ("count questions, of which there are two", lambda: 0 <= guess <= 2),
        ("count only groups whose answers differ", lambda: guess == 1),
    )


def check_group_advantages(answer) -> Check:
    """The advantages of GRPO: centred within each prompt's group."""
    # Neither symmetric (the median would do for the mean) nor as large as the example.
    rewards_PG = np.array([[1.0, 0.0, 0.0, 0.0, 1.0], [0.7, 0.7, 0.7, 0.7, 0.7]])
    other_PG = np.random.default_rng(0).gamma(1.0, size=(3, 4))

    def made(rewards):
        return np.asarray(answer(rewards.copy()))

    def sums_to_zero(rewards):
        return np.allclose(made(rewards).sum(axis=1), 0, atol=1e-5)

    return check_properties(
        (
            "keep the shape (prompts, answers)",
            lambda: np.shape(made(rewards_PG)) == (2, 5),
        ),
        (
            "centre each prompt at 0",
            lambda: sums_to_zero(rewards_PG) and sums_to_zero(other_PG),
        ),
        (
            "give a tied group only zeros",
            lambda: np.allclose(made(rewards_PG)[1], 0, atol=1e-5),
        ),
        ("keep right above wrong", lambda: made(rewards_PG)[0][0] > 0),
        (
            "keep the distances between the rewards of a group",
            lambda: np.allclose(np.diff(made(other_PG)), np.diff(other_PG), atol=1e-5),
        ),
        ("leave the rewards as they are", lambda: leaves_alone(answer, other_PG)),
    )


def check_negative_for_right(rewards_G) -> Check:
    """Breaking it: rewards for which a right answer is pushed down."""

    def pushed_down():
        advantages_G = np.asarray(rewards_G) - np.mean(rewards_G)
        return (advantages_G[np.asarray(rewards_G) == 1] < -1e-6).any()

    return check_properties(
        ("have at least two answers", lambda: len(rewards_G) >= 2),
        ("hold numbers, none of them infinite", lambda: np.isfinite(rewards_G).all()),
        ("have a right answer, of reward 1", lambda: 1 in list(rewards_G)),
        ("push a right answer down", pushed_down),
    )
