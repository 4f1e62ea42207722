"""Answers faster and for many: a paged cache, continuous batching, drafters."""

from helpers.serving.block_drafter import BlockDrafter, block_objective
from helpers.serving.block_pool import BlockPool
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.request import Request
from helpers.serving.scheduler import Engine
from helpers.serving.speculative import generate
from helpers.serving.speculative_turn import SpeculativeTurn
from helpers.serving.verify import verify

__all__ = [
    "BlockDrafter",  # proposes a block of tokens in one pass
    "BlockPool",  # the memory of a paged cache
    "DraftModel",  # a smaller model proposes tokens
    "Engine",  # answers many requests, which come and go
    "PromptLookup",  # the text itself proposes tokens
    "Request",  # a question to an engine, and its answer
    "SpeculativeTurn",  # rollouts with a drafter
    "block_objective",  # what a block drafter learns from
    "generate",  # answers, a drafter helping
    "verify",  # what is kept of guesses
]
