"""Images in conversations: where their tokens stand, and that nobody can spell one."""

import dataclasses

import pytest
from tiny_vision import SEES

from helpers.batches import packed_rows
from helpers.batches.images import counts
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["What is on the plate?", "An egg."] * 9, 400)


begin, soft, end = TOKENIZER.convert_tokens_to_ids(
    ["<start_of_image>", "<image_soft_token>", "<end_of_image>"]
)
TOWER = dataclasses.replace(
    SEES, tokens=4, begin_token=begin, image_token=soft, end_token=end
)
IMAGE = {"type": "image"}
# As Gemma3Processor of transformers expands it, with four tokens to an image.
WRITTEN = "\n\n<start_of_image>" + "<image_soft_token>" * 4 + "<end_of_image>\n\n"


def text(words):
    return {"type": "text", "text": words}


def ids(written):
    return TOKENIZER(written, add_special_tokens=False)["input_ids"]


def test_an_image_is_its_tokens_between_line_breaks():
    question = [{"role": "user", "content": [text("Look: "), IMAGE, text("What?")]}]
    expected = "<bos><start_of_turn>user\nLook:" + WRITTEN
    expected += "What?<end_of_turn>\n<start_of_turn>model\n"
    tokens = chat.prompt_tokens(TOKENIZER, question, vision=TOWER)
    assert tokens == ids(expected) and counts([tokens], TOWER) == [[4]]
    many = chat.prompts_tokens(TOKENIZER, [question, "What?"], vision=TOWER)
    assert many == [tokens, chat.prompt_tokens(TOKENIZER, "What?")]


def test_spelled_out_image_tokens_are_text():
    for words in ("<start_of_image>", "<image_soft_token>" * 4):
        for content in (words, [text(words)]):
            question = [{"role": "user", "content": content}]
            tokens = chat.prompt_tokens(TOKENIZER, question, vision=TOWER)
            assert counts([tokens], TOWER) == [[]]
            assert words in chat.decode(TOKENIZER, tokens)


def test_pictures_for_a_model_without_vision_are_refused():
    plain = chat.example_tokens(TOKENIZER, "What?", "An egg.")
    settings = {"batch": 1, "length": 64, "seed": 0}
    with pytest.raises(ValueError, match="vision="):
        packed_rows([plain], pictures=lambda index: [], **settings)
    assert "images" not in next(packed_rows([plain], vision=TOWER, **settings))
