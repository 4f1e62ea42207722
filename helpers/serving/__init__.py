"""Serving: a paged cache, continuous batching, speculative decoding."""

from helpers.serving.drafters import (
    DraftModel,  # a smaller model proposes tokens
    PromptLookup,  # the text itself proposes tokens
)
from helpers.serving.engine import (
    Engine,  # continuous batching
    Request,  # a question to an engine, and its answer
)
from helpers.serving.paged_cache import BlockPool  # the memory of a paged cache
from helpers.serving.speculative import (
    SpeculativeTurn,  # rollouts with a drafter
    generate,  # answers, a drafter helping
    verify,  # which drafted tokens are accepted
)
