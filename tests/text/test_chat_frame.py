"""What templates put around a question; counted by hand in test_family_turns."""

import pytest
from family_tokenizers import QWEN_HI

from helpers.text.chat_frame import frame
from helpers.text.tokenizer import train_tokenizer

FRAMES = {
    "gemma3_text": (9, None),  # a system turn would stand in the user's
    "gemma4": (9, None),
    "qwen2": (
        len(QWEN_HI) - 1 + 5 + 15,  # <|im_start|> system \n … <|im_end|> \n
        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    ),
    "qwen3": (8, None),
    "llama": (10, None),
}


@pytest.mark.parametrize("family", FRAMES)
def test_the_frame_of_a_family(family, families):
    assert frame(families[family]) == FRAMES[family]


def test_a_template_that_refuses_a_system_turn_has_none():
    tokenizer = train_tokenizer(["What is seven?"], 300)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}"
        "{{ raise_exception('no system') }}{% endif %}{{ m.content }}{% endfor %}"
    )
    assert frame(tokenizer) == (0, None)


def test_it_is_said_in_words(families):
    assert str(frame(families["gemma3_text"])) == (
        "9 tokens of template around every question"
    )
    assert "the system turn 'You are Qwen" in str(frame(families["qwen2"]))
