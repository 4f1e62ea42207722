"""Tokens back to text: special tokens are left out, the marks of a thought stay."""

import family_tokenizers
import pytest

from helpers.rewards.functions import correct
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    family_tokenizers.save(tmp_path, "gemma4")
    return chat.load_tokenizer(tmp_path)


def decoded(tokenizer, text):
    return chat.decode(
        tokenizer, tokenizer(text, add_special_tokens=False)["input_ids"]
    )


def test_gemma_4s_thoughts_stay_apart_from_its_answer(tokenizer):
    thought = "<|channel>thought\n#### 5\n<channel|>"
    assert decoded(tokenizer, thought + "No idea.<turn|>") == thought + "No idea."
    assert correct([""], [decoded(tokenizer, thought + "No idea.<turn|>")], ["5"]) == [
        0
    ]
    assert correct([""], [decoded(tokenizer, thought + "#### 7<turn|>")], ["7"]) == [1]
    assert decoded(tokenizer, "<turn|>") == "" == chat.decode(tokenizer, [])


def test_other_families_have_no_such_marks():
    tokenizer = train_tokenizer(["An egg on a plate."] * 9, 400)
    text = "An egg<channel|> on<end_of_turn> a plate."
    assert decoded(tokenizer, text) == "An egg<channel|> on a plate."
