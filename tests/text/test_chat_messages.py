"""Messages of which a chat template would leave something out, without a word."""

import pytest
from family_tokenizers import SPECIAL

from helpers.text import chat

HI = {"role": "user", "content": "Hi"}
TEXT = {"type": "text", "text": "Hi"}
LOST = {
    "no content": {"role": "user"},
    "another name": {"role": "user", "value": "Hi"},
    "None": {"role": "user", "content": None},
    "a number": {"role": "user", "content": 5},
    "a dict": {"role": "user", "content": {"text": "Hi"}},
    "no role": {"from": "human", "content": "Hi"},
    "a str": "Hi",
    "strs": {"role": "user", "content": ["Hi"]},
    "no text": {"role": "user", "content": [{"type": "text"}]},
    "no type": {"role": "user", "content": [{"text": "Hi"}]},
    "image_url": {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "a"}}, TEXT],
    },
    "audio": {"role": "user", "content": [{"type": "audio", "audio": "a"}, TEXT]},
    "a silent assistant": {"role": "assistant", "content": None},
    "a silent tool": {"role": "tool", "name": "lookup"},
}


@pytest.mark.parametrize("family", SPECIAL)
@pytest.mark.parametrize("kind", LOST)
def test_what_would_be_left_out_is_refused_by_name(kind, family, families):
    """As the last message, in a prompt, in a demonstration and between two answers."""
    tokenizer, lost = families[family], LOST[kind]
    answer = {"role": "assistant", "content": "Yo"}
    asked = [HI, answer, lost]
    if kind != "a silent assistant":  # nobody else's turn stands between two answers
        with pytest.raises(ValueError, match="essage 0"):
            chat.turn_tokens(tokenizer, [lost])
    for tokens in (
        lambda: chat.prompt_tokens(tokenizer, asked),
        lambda: chat.conversation_tokens(tokenizer, [*asked, answer]),
        lambda: chat.examples_tokens(tokenizer, [asked], ["Yo"]),
    ):
        with pytest.raises(ValueError, match="essage 2"):
            tokens()


def test_what_a_template_writes_is_let_through(families):
    tokenizer = families["gemma3_text"]
    whole = chat.prompt_tokens(tokenizer, [HI])
    assert chat.prompt_tokens(tokenizer, [{"role": "user", "content": [TEXT]}]) == whole
    empty = {"role": "user", "content": ""}
    assert len(chat.prompt_tokens(tokenizer, [empty])) == len(whole) - 1


def test_messages_that_are_no_list_are_refused(families):
    with pytest.raises(ValueError, match="pass a str, or a list"):
        chat.prompt_tokens(families["qwen2"], HI)
