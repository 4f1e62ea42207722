"""Self-checks of notebook 07."""

import numpy as np

from helpers.exercises.check import Check, filled, judge, leaves_alone


def check_group_advantages(answer) -> Check:
    """The advantages of GRPO: centred within each question's group."""
    # Lopsided groups, for which the mean is neither the median nor the midrange.
    rewards_PG = np.array([[1.0, 0.0, 0.0, 0.0, 1.0], [1.1, 1.1, 1.1, 1.1, 1.1]])
    other_PG = np.random.default_rng(7).gamma(1.0, size=(4, 3))

    def made(rewards):
        return np.asarray(answer(rewards.copy()))

    def sums_to_zero(rewards):
        return np.allclose(made(rewards).sum(axis=1), 0, atol=1e-5)

    return judge(
        (
            "keep the shape (questions, answers)",
            lambda: np.shape(made(rewards_PG)) == (2, 5),
        ),
        (
            "add up to zero in every group, lopsided ones too",
            lambda: sums_to_zero(rewards_PG) and sums_to_zero(other_PG),
        ),
        (
            "give a tied group only zeros",
            lambda: np.allclose(made(rewards_PG)[1], 0, atol=1e-5),
        ),
        ("put a right answer above a wrong one", lambda: made(rewards_PG)[0][0] > 0),
        (
            "keep the distances between rewards as they are",
            lambda: np.allclose(np.diff(made(other_PG)), np.diff(other_PG), atol=1e-5),
        ),
        ("leave the rewards it is given alone", lambda: leaves_alone(answer, other_PG)),
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
            "name a run for every diagnosis, each once",
            lambda: sorted(answer.values()) == ["A", "B", "C"],
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
    asked = ["How many?", "Why? " * 50, "How? " * 300]  # of other lengths than texts
    sizes = np.random.default_rng(4).integers(0, 400, 20).tolist()
    many = ["x" * size for size in sizes]

    def scores(completions, prompts=asked):
        columns = {"answer": ["1"] * len(completions)}
        return list(answer(list(prompts), list(completions), **columns))

    def one(text):
        return scores([text], ["Why? " * 50 if len(text) <= 200 else "Why?"])[0]

    return judge(
        ("return a list", lambda: isinstance(answer(asked[:], texts[:]), list)),
        (
            "return one number per completion",
            lambda: len(answer(asked[:], texts[:])) == 3,
        ),
        ("accept further columns", lambda: scores(texts) is not None),
        (
            "look at what the model wrote, not at what it was asked",
            lambda: one("a") == 0 and one("a" * 300) < 0,
        ),
        ("leave short answers at 0", lambda: scores(texts)[2] == 0),
        ("leave exactly 200 characters at 0", lambda: scores(texts)[0] == 0),
        ("price what is longer at -0.5", lambda: scores(texts)[1] == -0.5),
        (
            "price all long answers alike, however long",
            lambda: one("a" * 500) == one("a" * 20_000) == -0.5,
        ),
        (
            "count characters, not words or bytes",
            lambda: one("ä " * 101) == -0.5 and one("é" * 200) == 0,
        ),
        (
            "give each completion its own price, in order",
            lambda: scores(many, many[::-1]) == [-0.5 * (n > 200) for n in sizes],
        ),
        ("leave the texts alone", lambda: leaves_alone(answer, asked, texts)),
    )
