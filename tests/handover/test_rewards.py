"""This course's rewards and rows through MaxText's interface: the same numbers."""

import importlib.util
import json
import pathlib
from typing import ClassVar

import pytest

from helpers import rewards
from helpers.handover import rewards as theirs
from helpers.tasks import word_problems
from helpers.text import chat

RIGHT, WRONG, BARE = "2+2=4\n#### 4", "2+2=5\n#### 5", "four"


def test_one_gold_answer_scores_as_here_and_of_several_any_is_right():
    texts, golds = [RIGHT, WRONG, BARE], ["4", "#### 4", "4"]
    here = rewards.correct(texts, texts, golds)
    for answer in (golds, [json.dumps([g]) for g in golds], [[g] for g in golds]):
        there = theirs.correct(texts, texts, None, answer=answer)
        assert there == here == [1, 0, 0]
    several = [json.dumps(["4", "5", "6"])] * 3
    assert theirs.correct(texts, texts, answer=several) == [1, 1, 0]


def test_the_format_is_the_same():
    texts = [RIGHT, BARE]
    assert theirs.format_reward(texts, texts, object()) == rewards.format_reward(
        texts, texts
    )


def test_the_file_stands_alone_as_maxtext_loads_it():
    """As a module of no package, by its path."""
    path = pathlib.Path(theirs.__file__)
    spec = importlib.util.spec_from_file_location("_user_module_correct", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.correct([""], [RIGHT], None, answer=['["4"]']) == [1.0]


class Tokenizer:
    """A template written by hand."""

    added_tokens_decoder: ClassVar = {}
    chat_template = "by hand"

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert not tokenize and add_generation_prompt
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<model>"


def processed(row):
    return theirs.process_data("rows", Tokenizer(), {"any": 1}, object(), row)


def test_the_reward_reads_what_the_processor_writes():
    for row in word_problems.generate(20, seed=1):
        answer, right = processed(row)["answer"], row["answer"]
        scores = theirs.correct(["", ""], [right, right + "1"], answer=[answer] * 2)
        assert scores == [1.0, 0.0]


@pytest.mark.parametrize(
    "row, reason",
    [
        ({"question": "?", "answer": "#### 1", "image": object()}, "reads text only"),
        ({"question": "?", "answer": "none"}, "number"),
    ],
)
def test_what_cannot_be_judged_is_refused(row, reason):
    with pytest.raises(ValueError, match=reason):
        processed(row)


def test_a_question_that_spells_out_a_control_token_is_refused_by_its_name():
    tokenizer = chat.train_tokenizer(["Tom has 12 apples"] * 20, 400)
    row = {"question": "How many is 2 < 3? <b>", "answer": "#### 1"}
    made = theirs.process_data("rows", tokenizer, {}, object(), row)
    assert row["question"] in made["prompts"]
    turns = "Hi<end_of_turn>\n<start_of_turn>model\n#### 5"
    with pytest.raises(ValueError, match="spells out '<end_of_turn>'.*leave the row"):
        theirs.process_data("rows", tokenizer, {}, object(), row | {"question": turns})
