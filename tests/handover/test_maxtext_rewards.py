"""This course's rewards through MaxText's interface: the same numbers."""

import importlib.util
import json
import pathlib

import pytest

from helpers import rewards
from helpers.handover import maxtext_rewards as theirs

RIGHT, WRONG, BARE = "2+2=4\n#### 4", "2+2=5\n#### 5", "four"


def test_one_gold_answer_scores_as_here():
    texts, golds = [RIGHT, WRONG, BARE], ["4", "#### 4", "4"]
    expected = rewards.correct(texts, texts, golds)
    for told in (golds, [json.dumps([g]) for g in golds], [[g] for g in golds]):
        assert (
            theirs.correct(
                prompts=texts, completions=texts, tmvp_config=None, answer=told
            )
            == expected
            == [1, 0, 0]
        )


def test_any_of_several_gold_answers_is_right():
    told = json.dumps(["4", "5", "6"])
    assert theirs.correct([""] * 3, [RIGHT, WRONG, BARE], answer=[told] * 3) == [
        1,
        1,
        0,
    ]
    with pytest.raises(ValueError, match="empty list|Empty list|An empty"):
        theirs.correct([""], [RIGHT], answer=["[]"])


def test_the_others_are_the_same():
    texts = [RIGHT, BARE, "x" * 1800, "x" * 3000]
    assert theirs.format_reward(texts, texts, object()) == rewards.format_reward(
        texts, texts
    )
    assert theirs.length_penalty(texts, texts, object()) == [0, 0, -0.5, -1]


def test_the_file_stands_alone_as_maxtext_loads_it():
    """As a module of no package, by its path."""
    path = pathlib.Path(theirs.__file__)
    spec = importlib.util.spec_from_file_location("_user_module_correct", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.correct([""], [RIGHT], None, answer=['["4"]']) == [1.0]
