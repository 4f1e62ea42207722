"""A question to an engine, and its answer as it grows."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from helpers.generation import sampling


@dataclasses.dataclass(eq=False)
class Request:
    """A question, and its answer as it grows.

    Attributes:
      prompt: its tokens.
      max_tokens: the most tokens of the answer.
      seed: decides its random numbers, whatever is answered beside it.
      temperature: 0 is greedy.
      answer: tokens so far, the EOS included.
      ended: whether an EOS or the budget has ended it.
      read: tokens that were read in chunks: of the prompt, but for those found in the
        cache, and again, with the answer so far, after blocks were given back.
      preempted: how often it had to give its blocks back.
    """

    prompt: Sequence[int]
    max_tokens: int
    seed: int = 0
    temperature: float = 0.0
    answer: list[int] = dataclasses.field(default_factory=list)
    ended: bool = False
    read: int = 0
    preempted: int = 0


def check(request: Request, vocab: int, most: int) -> None:
    """Refuses what no engine could answer.

    Args:
      vocab: of the model. most: tokens that a text may have, prompt and answer.
    Raises:
      ValueError: saying what.
    """
    prompt, budget = np.asarray(request.prompt), request.max_tokens
    if not prompt.size:
        raise ValueError("A request needs a token to go on from.")
    if prompt.ndim != 1 or prompt.dtype.kind not in "iu":
        raise ValueError(
            f"A prompt is a list of tokens, not {prompt.dtype}{prompt.shape}."
        )
    if strange := [int(token) for token in prompt if not 0 <= token < vocab]:
        raise ValueError(f"Tokens {strange[:3]} are not of the model's {vocab}.")
    sampling.check_limits(budget, (), request.temperature, vocab)
    if not hasattr(request.seed, "__index__") or not 0 <= request.seed < 2**32:
        raise ValueError(
            f"seed {request.seed!r} must be a whole number, from 0 to below 2^32."
        )
    if len(prompt) + budget > most:
        raise ValueError(
            f"{len(prompt)} tokens and {budget} more are over the {most} that a text "
            "may have here: shorten it, or make the engine larger."
        )
