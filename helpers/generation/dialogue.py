"""What rollouts and evaluation sample through: answers in one turn, or with tools."""

from typing import NamedTuple

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


class GrowingAnswer:
    """One answer while it is sampled piece by piece: its tokens, mask and log-probs."""

    def __init__(self):
        self.tokens, self.mask, self.logprobs, self.ended = [], [], [], False

    def add_sampled(self, tokens, logprobs):
        """Appends what the model wrote."""
        self.tokens += tokens
        self.mask += [1] * len(tokens)
        self.logprobs += logprobs

    def add_result(self, tokens):
        """Appends a tool's result, which has neither loss nor log-probabilities."""
        self.tokens += tokens
        self.mask += [0] * len(tokens)
        self.logprobs += [0.0] * len(tokens)


def packed(answers, width, texts, metrics) -> Answers:
    """P lists of G `GrowingAnswer` as Answers, padded on the right to a width."""
    shape = len(answers), len(answers[0])
    tokens, mask = np.zeros((2, *shape, width), np.int32)
    logprobs, ended = np.zeros((*shape, width), np.float32), np.zeros(shape, bool)
    for p, g in np.ndindex(shape):
        each = answers[p][g]
        count = len(each.tokens)
        tokens[p, g, :count], mask[p, g, :count] = each.tokens, each.mask
        logprobs[p, g, :count], ended[p, g] = each.logprobs, each.ended
    return Answers(tokens, mask, logprobs, ended, texts, metrics)


class Dialogue:
    """How an answer is sampled: in one turn, without tools. `ToolUse` has others."""

    @property
    def schemas(self) -> list[dict] | None:
        """JSON schemas of tools for the chat template; None without tools."""
        return None

    def width(self, max_tokens: int) -> int:
        """Most tokens of an answer whose turns have at most `max_tokens`."""
        return max_tokens

    def describe(self) -> dict:
        """What must be the same for a run to be resumed, for JSON."""
        return {}

    def answers(
        self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0
    ) -> Answers:
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
