"""Self-checks of notebook 07."""

import numpy as np

from helpers.exercises.check import Check, filled, judge, leaves_alone


def _teaching(solved_P, group):
    """The share of groups that are expected to hold right and wrong answers."""
    return float(np.mean(1 - solved_P**group - (1 - solved_P) ** group))


def _smallest(solved_P, share):
    return next((G for G in range(2, 65) if _teaching(solved_P, G) >= share), None)


def check_smallest_group(answer) -> Check:
    """How many answers a question needs so that a share of the groups is not tied."""
    coin, rare, sure = np.array([0.5]), np.array([0.1]), np.array([0.9])
    apart = np.array([0.01, 0.99, 0.5])  # solved by half, on average
    hard = np.array([0.02])
    rng = np.random.default_rng(7)
    cases = [(rng.beta(0.5, 0.5, 9), rng.uniform(0.1, 0.8)) for _ in range(60)]
    between = [_teaching(hard, G) + 1e-4 for G in (63, 64)]

    def gives(solved_P, share):
        return answer(solved_P.copy(), share)

    return judge(
        (
            "find that two answers to a coin differ every second time",
            lambda: gives(coin, 0.5) == 2 and gives(coin, 0.51) == 3,
        ),
        (
            "take a group that nobody solves for tied",
            lambda: gives(rare, 0.5) == _smallest(rare, 0.5),
        ),
        (
            "take a group that everybody solves for tied, too",
            lambda: gives(sure, 0.5) == _smallest(sure, 0.5),
        ),
        (
            "ask of each question by itself, and not of the mean question",
            lambda: gives(apart, 0.5) == _smallest(apart, 0.5),
        ),
        ("need at least two answers to compare", lambda: gives(coin, 0.0) == 2),
        (
            "give a whole number, such as `range` takes",
            lambda: isinstance(gives(coin, 0.5), int | np.integer),
        ),
        (
            "give None where 64 answers are too few, and 64 where they are enough",
            lambda: gives(hard, between[1]) is None and gives(hard, between[0]) == 64,
        ),
        (
            "give None where most questions are always or never solved",
            lambda: gives(np.array([0.0, 1.0, 0.5]), 0.5) is None,
        ),
        (
            "be right for other questions as well",
            lambda: all(gives(*case) == _smallest(*case) for case in cases),
        ),
        ("leave what it is given alone", lambda: leaves_alone(answer, apart, 0.5)),
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
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 400, 20).tolist()
    many = ["".join(rng.choice(list("x \n#"), size)) for size in sizes]
    lines = "\n".join(["She has 12 pens."] * 13)  # 220 characters, 17 in each line

    def scores(completions, prompts=asked):
        columns = {"answer": ["1"] * len(completions), "level": [3] * len(completions)}
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
            "count all of them: blanks, every line, and what follows the ####",
            lambda: one(" " * 201) == one(lines) == one(f"#### 5\n{lines}") == -0.5,
        ),
        (
            "give each completion its own price, in order",
            lambda: scores(many, many[::-1]) == [-0.5 * (n > 200) for n in sizes],
        ),
        ("leave the texts alone", lambda: leaves_alone(answer, asked, texts)),
    )
