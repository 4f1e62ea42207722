"""Answers faster and for many: paged cache, speculative decoding."""

from helpers.serving.blocks import BlockPool
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.speculative import generate

__all__ = [
    "BlockPool",  # the memory of a paged cache
    "DraftModel",  # a smaller model proposes tokens
    "PromptLookup",  # the text itself proposes tokens
    "generate",  # answers, a drafter helping
]
