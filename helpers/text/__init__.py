"""Text to tokens and back: tokenizers, chat templates, loss masks."""

from helpers.text import chat  # prompts, demonstrations and conversations to tokens
from helpers.text.chat import require_same_tokens  # of student and teacher
from helpers.text.tokenizer import (
    load_tokenizer,  # from a model folder, with its chat template
    save_tokenizer,  # into one
    train_tokenizer,  # a small one, from text
)
