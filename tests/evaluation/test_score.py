"""Scores by a reward of one's own: known answers, whose scores are added up by hand."""

import pytest
from scripted_answers import TOKENIZER, Scripted

from helpers.evaluation import score, with_wording
from helpers.evaluation.intervals import mean_interval
from helpers.rewards import RewardSet

ROWS = [
    {"question": q, "answer": "x", "best": b} for q, b in zip("abc", "345", strict=True)
]
GREEDY = {"a": ("3", []), "b": ("44", []), "c": ("5…", [])}


def begins_with(prompts, completions, best, **columns):
    return [
        float(text.startswith(b)) for text, b in zip(completions, best, strict=True)
    ]


def length(prompts, completions, **columns):
    return [float(len(text)) for text in completions]


def scored(rows=ROWS, reward=begins_with, table=GREEDY, **settings):
    settings |= {"environment": Scripted(table), "max_tokens": 4}
    return score(None, TOKENIZER, rows, reward, **settings)


@pytest.mark.parametrize("batch", [1, 64])
def test_each_answer_is_scored_by_its_row(batch):
    scores = scored(reward=RewardSet({begins_with: 1.0, length: 0.5}), batch=batch)
    assert scores.column("reward") == [1.5, 2.0, 1.5]  # 1 + 1/2, 1 + 2/2, 1 + 1/2
    assert scores.column("completion") == ["3", "44", "5"]
    assert scores.parts == {"reward/begins_with": 1.0, "reward/length": 4 / 3}
    assert scores.n == 3 and scores.mean == pytest.approx(5 / 3)
    assert scores.truncated == pytest.approx(1 / 3)
    assert "mean reward 1.667 (95%: " in str(scores) and "length 1.33" in str(scores)


def test_two_models_are_compared_row_by_row():
    change = scored(table=GREEDY | {"b": ("9", [])}).since(scored())
    assert (change.gained, change.lost) == (0, 1)
    assert change.difference == pytest.approx(-1 / 3)


def test_scores_of_other_rows_or_rewards_are_not_compared():
    for other in (scored(reward=length), scored(ROWS[:2])):
        with pytest.raises(ValueError, match="different rewards or of different rows"):
            other.since(scored())


def test_each_answer_has_its_score_by_each_reward_and_each_mean_an_interval():
    both = scored(reward=RewardSet({begins_with: 2.0, length: 0.5}))
    for answer in both.answers:
        parts = answer["reward/begins_with"], answer["reward/length"]
        assert answer["reward"] == 2.0 * parts[0] + 0.5 * parts[1]
    for name, mean in both.parts.items():
        column = both.column(name)
        assert sum(column) / len(column) == pytest.approx(mean)
        assert both.interval(name) == mean_interval(column)


def test_a_reward_of_token_ids_or_of_columns_that_rows_lack_is_given_them():
    def reward(completions, completion_ids, level):
        assert level == [1, None, None]
        return [float(len(ids)) for ids in completion_ids]

    rows = [ROWS[0] | {"level": 1}, *ROWS[1:]]
    assert scored(rows, reward).column("reward") == [2, 3, 1]  # with an end, or none


def test_rewards_that_are_all_alike_have_no_interval():
    def nothing(prompts, completions, **columns):
        return [0.0] * len(completions)

    text = str(scored(reward=nothing))
    assert "mean reward 0.000 (all n = 3 alike): nothing 0.00" in text


def test_a_wording_has_a_place_for_the_question():
    (row,) = with_wording([{"question": "Q", "answer": "1"}], "Please: {question}!")
    assert row == {"question": "Please: Q!", "answer": "1"}
    with pytest.raises(ValueError, match="must hold {question}"):
        with_wording(ROWS, "no place")
