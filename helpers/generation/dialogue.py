"""What rollouts and evaluation sample through: answers in one turn, or with tools."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from helpers.generation.sampling import generate
from helpers.runtime.sharding import local_rows
from helpers.text import chat


class Answers(NamedTuple):
    """Answers on the host, as the trainer reads them, axes (P, G, T).

    tokens: int32, the model's and, between them, those of results; without gaps.
    mask: int32, 1 on the model's own. logprobs: float32 as sampled, 0 elsewhere.
    ended: (P, G) bool: its last turn ended by an EOS.
    texts: P lists of G strings, or of `tool.Trace`. metrics: means over all answers.
    """

    tokens: np.ndarray
    mask: np.ndarray
    logprobs: np.ndarray
    ended: np.ndarray
    texts: list
    metrics: dict


def padded(answers, width) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens, mask, logprobs) of answers, padded on the right, as `Answers` has them.

    Args:
      answers: P lists of G answers, each with these three lists.
      width: T.
    """
    shape = len(answers), len(answers[0]), width
    tokens, mask = np.zeros((2, *shape), np.int32)
    logprobs = np.zeros(shape, np.float32)
    for place in np.ndindex(shape[:2]):
        each = answers[place[0]][place[1]]
        tokens[place][: len(each.tokens)] = each.tokens
        mask[place][: len(each.mask)] = each.mask
        logprobs[place][: len(each.logprobs)] = each.logprobs
    return tokens, mask, logprobs


class Dialogue(Protocol):
    """What `OneTurn`, `ToolUse` and `CalculatorUse` are."""

    @property
    def schemas(self) -> list[dict] | None:
        """JSON schemas of tools for the chat template; None without tools."""

    def width(self, max_tokens: int) -> int:
        """Most tokens of an answer whose turns have at most `max_tokens`."""

    def describe(self) -> dict:
        """What must be the same for a run to be resumed, for JSON."""

    def answers(
        self,
        model: Any,
        tokenizer: Any,
        prompts: dict,
        keys: Any,
        *,
        max_tokens: int,
        temperature: float = 1.0,
    ) -> Answers:
        """Samples an answer for each key, see `tool_use.ToolUse.answers`."""


class OneTurn:
    """A `dialogue.Dialogue` of one turn, without tools."""

    schemas = None

    def width(self, max_tokens):
        """Most tokens of an answer."""
        return max_tokens

    def describe(self):
        """What must be the same for a run to be resumed."""
        return {}

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key; see `tool_use.ToolUse.answers`."""
        completions, metrics = self.sampled(
            model,
            prompts,
            keys,
            max_tokens=max_tokens,
            eos_ids=chat.eos_ids(tokenizer),
            temperature=temperature,
        )
        tokens, mask, logprobs, ended = local_rows(completions)
        texts = [
            [chat.decode(tokenizer, t[m > 0]) for t, m in zip(ts, ms, strict=True)]
            for ts, ms in zip(tokens, mask, strict=True)
        ]
        return Answers(tokens, mask, logprobs, ended, texts, metrics)

    def sampled(self, model, prompts, keys, **settings):
        """(`sampling.Completions`, means to go with them); settings of `generate`."""
        rows = prompts["prompt"], prompts["prompt_mask"], keys
        return generate(model, *rows, images=prompts.get("images"), **settings), {}
