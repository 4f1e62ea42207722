"""Scores by a reward of one's own: known answers, whose scores are added up by hand."""

import types

import pytest
from test_evaluator import scripted

from helpers.evaluation import score
from helpers.evaluation.intervals import mean_interval
from helpers.rewards import RewardError, RewardSet

MODEL = types.SimpleNamespace(config=types.SimpleNamespace(vision=None))
ROWS = [
    {"question": q, "answer": "x", "best": b} for q, b in zip("abc", "345", strict=True)
]
GREEDY = {"a": ("3", []), "b": ("44", []), "c": ("5…", [])}


@pytest.fixture
def answers(monkeypatch):
    """What the model answers to each question, to be filled in."""
    table = dict(GREEDY)
    scripted(monkeypatch, table)
    return table


def begins_with(prompts, completions, best, **columns):
    return [
        float(text.startswith(b)) for text, b in zip(completions, best, strict=True)
    ]


def length(prompts, completions, **columns):
    return [float(len(text)) for text in completions]


def scored(rows=ROWS, reward=begins_with, **settings):
    return score(MODEL, None, rows, reward, max_tokens=4, buckets=(4,), **settings)


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_each_answer_is_judged_by_its_own_row(answers, batch):
    found = scored(reward=RewardSet({begins_with: 1.0, length: 0.5}), batch=batch)
    assert found.column("reward") == [1.5, 2.0, 1.5]  # 1 + 1/2, 1 + 2/2, 1 + 1/2
    assert found.column("completion") == ["3", "44", "5"]
    assert found.parts == {"reward/begins_with": 1.0, "reward/length": 4 / 3}
    assert found.n == 3 and found.mean == pytest.approx(5 / 3)
    assert found.truncated == pytest.approx(1 / 3)
    assert "mean reward 1.667 (95%: " in str(found) and "length 1.33" in str(found)


def test_two_models_are_compared_row_by_row(answers):
    before = scored()
    answers["b"] = ("9", [])
    change = scored().since(before)
    assert (change.gained, change.lost) == (0, 1)
    assert change.difference == pytest.approx(-1 / 3)


def test_a_reward_that_fails_names_the_answer(answers):
    def broken(prompts, completions, **columns):
        return [1 / 0 for _ in completions]

    with pytest.raises(RewardError, match="'broken' raised ZeroDivisionError"):
        scored(reward=broken)


def test_scores_by_another_reward_of_the_same_name_are_not_compared(answers):
    def paid(prompts, completions, **columns):
        return [1.0] * len(completions)

    paid.__name__ = begins_with.__name__
    other_answers = [row | {"best": "9"} for row in ROWS]
    for other in (
        scored(reward=paid),
        scored(reward=RewardSet({begins_with: 2.0})),
        scored(other_answers),
    ):
        with pytest.raises(ValueError, match="different rewards or of different rows"):
            other.since(scored())
    assert scored().since(scored()).n == 3


class Counts:
    """A reward that counts its calls."""

    calls = 0

    def __call__(self, prompts, completions, **columns):
        self.calls += 1
        return [1.0] * len(completions)


def test_scores_by_a_reward_with_a_state_that_changes_are_not_compared(answers):
    counts = Counts()
    with pytest.raises(ValueError, match="different rewards"):
        scored(reward=counts).since(scored(reward=counts))


loaded = {}


def loads_once(prompts, completions, **columns):
    model = loaded.setdefault("model", "a large model")
    return [float(len(model))] * len(completions)


def test_a_reward_that_sets_itself_up_in_its_first_call_is_compared(answers):
    assert scored(reward=loads_once).since(scored(reward=loads_once)).n == 3


def test_each_answer_has_its_score_by_each_reward_and_each_mean_an_interval(answers):
    both = scored(reward=RewardSet({begins_with: 2.0, length: 0.5}))
    for answer in both.answers:
        parts = answer["reward/begins_with"], answer["reward/length"]
        assert answer["reward"] == 2.0 * parts[0] + 0.5 * parts[1]
    for name, mean in both.parts.items():
        column = both.column(name)
        assert sum(column) / len(column) == pytest.approx(mean)
        low, high = both.interval(name)
        assert low <= mean <= high
        assert (low, high) == mean_interval(column)


def test_rewards_that_are_all_alike_are_told_so_and_given_no_interval(answers):
    def nothing(prompts, completions, **columns):
        return [0.0] * len(completions)

    assert "mean reward 0.000 (all n = 3 alike): nothing 0.00" in str(
        scored(reward=nothing)
    )
    assert "95%" in str(scored(reward=length))
