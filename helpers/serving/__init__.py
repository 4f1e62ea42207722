"""Serving: a paged cache, continuous batching, speculative decoding."""

from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.engine import Engine, Request
from helpers.serving.paged_cache import BlockPool
from helpers.serving.speculative import SpeculativeTurn, generate, verify

__all__ = [
    "BlockPool",  # the memory of a paged cache
    "DraftModel",  # a smaller model proposes tokens
    "Engine",  # continuous batching
    "PromptLookup",  # the text itself proposes tokens
    "Request",  # a question to an engine, and its answer
    "SpeculativeTurn",  # rollouts with a drafter
    "generate",  # answers, a drafter helping
    "verify",  # which drafted tokens are accepted
]
