"""Answers faster and for many: a paged cache, continuous batching, drafters."""

from helpers.serving.block_drafter import BlockDrafter
from helpers.serving.block_pool import BlockPool
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.scheduler import Engine, Request
from helpers.serving.speculative import generate
from helpers.serving.speculative_turn import SpeculativeTurn

__all__ = [
    "BlockDrafter",  # proposes a block of tokens in one pass
    "BlockPool",  # the memory of a paged cache
    "DraftModel",  # a smaller model proposes tokens
    "Engine",  # answers many requests, which come and go
    "PromptLookup",  # the text itself proposes tokens
    "Request",  # a question to an engine, and its answer
    "SpeculativeTurn",  # rollouts with a drafter
    "generate",  # answers, a drafter helping
]
