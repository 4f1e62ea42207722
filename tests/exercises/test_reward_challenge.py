"""The checker of notebook 15's challenge: what is good, what is cheap, what is paid."""

import contextlib
import itertools
import re

import course_notebooks as course
import pytest

from helpers.exercises import challenge, reward_challenge
from helpers.rewards import annotations
from helpers.tasks.maths import word_problems


def labelled(n=20, seed=0):
    taken = []

    def attempt(answers):
        taken.extend(answers.take(n))
        return lambda prompts, completions, number: [0.0] * len(prompts)

    outcome = reward_challenge.own_reward(attempt, seed)
    assert not outcome.passed and (outcome.reached, outcome.spent) == (0.0, n)
    return taken


def held_out():
    """The checker's rows as a reward sees them: (question, completion, number)."""
    seen = []

    def attempt(answers):
        def reward(prompts, completions, number):
            seen.extend(zip(prompts, completions, number, strict=True))
            return [0.0] * len(prompts)

        return reward

    reward_challenge.own_reward(attempt)
    return seen


def is_right(text, number):
    return text.endswith(f"\n#### {number}") and all(annotations(text))


def good_answers():
    """The worked answers of the problems that the checker asks."""
    drawn = {"seed": challenge.HELD_OUT, "levels": (1, 2, 3), "split": "test"}
    return {row["answer"] for row in word_problems.generate(60, **drawn)}


def test_labelled_answers_are_good_and_cheap_by_turns_and_no_question_is_held_out():
    rows = labelled()
    assert [row["good"] for row in rows] == [False, True] * 10
    for row in rows:
        assert set(row) == {"question", "number", "answer", "good"}
        if row["good"]:
            assert is_right(row["answer"], row["number"]) and "<<" in row["answer"]
    asked = {row["question"] for row in rows}
    assert len(asked) == 20 and not asked & {question for question, *_ in held_out()}
    assert labelled(seed=1) != rows


def test_each_held_out_question_has_one_good_answer_and_fifteen_other_ones():
    groups = {}
    worked = good_answers()
    for question, text, number in held_out():
        groups.setdefault((question, number), []).append(text)
    assert len(groups) == 60
    for (_, number), texts in groups.items():
        (good,) = worked & set(texts)
        cheap = [text for text in texts if text != good]
        assert is_right(good, number) and re.search(rf"={number}>>", good)
        assert len(cheap) == 15
        bought = [text for text in cheap if is_right(text, number) and "<<" in text]
        assert len(bought) == 7, "1=1, +0, *1, a difference, a sum, doubled, 1=1 after"
        wrong = [t for t in cheap if not t.endswith(f"#### {number}")]
        assert len(wrong) == 6


def test_a_pair_counts_only_if_the_good_answer_is_paid_more():
    good = good_answers()

    def of(pay):
        def attempt(answers):
            return lambda prompts, completions, number: list(map(pay, completions))

        return reward_challenge.own_reward(attempt).reached

    assert of(lambda text: float(text in good)) == 1.0
    assert of(lambda text: -float(text in good)) == 0.0
    assert of(lambda text: 1.0) == 0.0, "level is not more"
    assert of(lambda text: float(text in good) - text.endswith("easy.")) == 1.0
    assert of(lambda text: float(not text.endswith("easy."))) == pytest.approx(1 / 15)


@pytest.mark.parametrize(
    "returned, told",
    [
        (None, "return a function"),
        (lambda *_, **__: [], "return a function"),
        (lambda prompts, *_, **__: [float("nan")] * len(prompts), "return a function"),
        (lambda prompts, *_, **__: [1.0, 2.0], "return a function"),
    ],
)
def test_what_is_no_reward_fails(returned, told):
    outcome = reward_challenge.own_reward(lambda answers: returned, to_beat=-1)
    assert not outcome.passed and outcome.reached is None and told in outcome.message


@pytest.mark.parametrize("caught", [False, True])
def test_an_answer_too_many_fails_whether_it_is_caught_or_not(caught):
    def attempt(answers):
        answers.take(20)
        try:
            answers.take(1)
        except challenge.OverBudget:
            if not caught:
                raise
        return lambda prompts, *_, **__: [0.0] * len(prompts)

    outcome = reward_challenge.own_reward(attempt, to_beat=-1)
    assert not outcome.passed and "within 20 " in outcome.message


def test_a_reward_that_asks_for_more_answers_while_it_pays_fails():
    def attempt(answers):
        answers.take(20)

        def reward(prompts, completions, number):
            with contextlib.suppress(challenge.OverBudget):
                answers.take(1)
            return [0.0] * len(prompts)

        return reward

    outcome = reward_challenge.own_reward(attempt, to_beat=-1)
    assert not outcome.passed and outcome.reached is None


def test_where_an_answer_stands_tells_nothing_of_it():
    """Neither in the batch, which has one answer, nor in the order of the calls."""

    def of(place):
        def attempt(answers):
            calls = itertools.count()
            return lambda prompts, *_, **__: [
                float((next(calls) + i) % 16 == place) for i in range(len(prompts))
            ]

        return reward_challenge.own_reward(attempt).reached

    assert max(map(of, range(16))) < 0.3


def test_an_attempt_that_patches_the_checker_fails(monkeypatch):
    def attempt(answers):
        monkeypatch.setattr(reward_challenge, "_ordered", lambda rows, paid: 1.0)
        return lambda prompts, *_, **__: [0.0] * len(prompts)

    outcome = reward_challenge.own_reward(attempt)
    assert not outcome.passed and "as they are" in outcome.message


def test_the_notebook_says_what_its_own_rewards_order():
    """With section 3's reward, and with exercise 3's solution in it."""
    cells = course.read("15").cells
    (section,) = (c.source for c in cells if c.source.startswith("def right("))
    shown = "<details><summary>Hint</summary>"
    solved = [c.source for c in cells if c.source.startswith(shown)]
    (folded,) = (text for text in solved if "def sum_is_used" in text)
    (said,) = (c.source for c in cells if c.source.startswith("## Challenge"))
    names: dict = {"annotations": annotations, "RewardSet": dict}
    exec(section, names)
    exec(re.search(r"```python\n(.*?)```", folded, re.DOTALL)[1], names)
    own, used = names["shows_its_sum"], names["sum_is_used"]

    def of(shown):
        def reward(prompts, completions, number):
            right = names["right"](prompts, completions, number)
            paid = zip(right, shown(prompts, completions), strict=True)
            return [1.0 * r + 0.5 * s for r, s in paid]

        return reward_challenge.own_reward(lambda answers: reward).reached

    assert f"in {of(own):.1%};" in " ".join(said.split())
    strict = of(lambda prompts, completions: list(map(used, completions)))
    assert f"it is {strict:.1%} (seed 0)" in " ".join(said.split())
    assert "seven ways to be cheap" in said and "knows eight more" in said
