"""Text to tokens and back: tokenizers, chat templates, loss masks."""

from helpers.text import chat
from helpers.text.chat import require_same_tokens
from helpers.text.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer

__all__ = [
    "chat",  # prompts, demonstrations and conversations to tokens
    "load_tokenizer",  # from a model folder, with its chat template
    "require_same_tokens",  # of student and teacher
    "save_tokenizer",  # into one
    "train_tokenizer",  # a small one, from text
]
