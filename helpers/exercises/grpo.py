"""Self-checks of notebook 07."""

import numpy as np

from helpers.exercises.check import Check, filled, judge


def check_group_advantages(answer) -> Check:
    """The advantages of GRPO: centred within each question's group."""
    rewards_PG = np.array([[1.0, 0.0, 1.0, 0.0], [1.1, 1.1, 1.1, 1.1]])
    other_PG = np.array([[5.0, 3.0, 1.0]])
    return judge(
        (
            "keep the shape (questions, answers)",
            lambda: answer(rewards_PG).shape == (2, 4),
        ),
        (
            "add up to zero in every group",
            lambda: np.allclose(answer(rewards_PG).sum(1), 0),
        ),
        ("give a tied group only zeros", lambda: np.allclose(answer(rewards_PG)[1], 0)),
        ("put a right answer above a wrong one", lambda: answer(rewards_PG)[0, 0] > 0),
        (
            "keep the distances between rewards as they are",
            lambda: np.allclose(np.diff(answer(other_PG)), -2),
        ),
    )


def check_stops_at(answer) -> Check:
    """A prediction: where the clip stops pushing a bad token down."""
    return judge(
        ("be filled in", filled(answer, what="a probability")),
        ("be a number", lambda: float(answer) is not None),
        ("lie below the 0.5 it was sampled with", lambda: answer < 0.5),
        (
            "use the lower end of the clip, not the upper",
            lambda: answer > 0.5 * (1 - 0.28),
        ),
        (
            "be the probability at which the ratio meets the clip",
            lambda: abs(answer - 0.4) < 0.005,
        ),
    )


def check_diagnosis(answer) -> Check:
    """Reading curves: which run is healthy, starved, or blown up."""

    def named():
        return filled(*answer.values(), what="the letter of a run")()

    return judge(
        ("be filled in", named),
        (
            "name a run for every diagnosis",
            lambda: set(answer.values()) == {"A", "B", "C"},
        ),
        ("call healthy the run whose reward climbs", lambda: answer["healthy"] == "A"),
        (
            "see that nothing at all moves where no reward is given",
            lambda: answer["reward never given"] == "B",
        ),
        (
            "blame the rate where the entropy jumps",
            lambda: answer["learning rate"] == "C",
        ),
    )


def check_brevity(answer) -> Check:
    """A reward function that prices answers beyond 200 characters."""
    texts = ["a" * 200, "a" * 201, ""]
    return judge(
        ("return a list", lambda: isinstance(answer(texts, texts), list)),
        ("return one number per completion", lambda: len(answer(texts, texts)) == 3),
        (
            "accept further columns",
            lambda: answer(texts, texts, answer=texts) is not None,
        ),
        ("leave short answers at 0", lambda: answer(texts, texts)[2] == 0),
        ("leave exactly 200 characters at 0", lambda: answer(texts, texts)[0] == 0),
        ("price what is longer at -0.5", lambda: answer(texts, texts)[1] == -0.5),
    )
