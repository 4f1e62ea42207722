"""Answers of one turn: what rollouts sample where there are no tools."""

from helpers.generation.dialogue import Answers
from helpers.generation.sampling import generate
from helpers.runtime.sharding import own_rows
from helpers.text import chat


class OneTurn:
    """A `dialogue.Dialogue` of one turn, without tools."""

    schemas = None

    def width(self, max_tokens):
        """Most tokens of an answer."""
        return max_tokens

    def describe(self):
        """What a run's state says of it."""
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
        tokens, mask, logprobs, ended = own_rows(completions)
        texts = [
            [chat.decode(tokenizer, t[m > 0]) for t, m in zip(ts, ms, strict=True)]
            for ts, ms in zip(tokens, mask, strict=True)
        ]
        return Answers(tokens, mask, logprobs, ended, texts, metrics)

    def sampled(self, model, prompts, keys, **settings):
        """(`sampling.Completions`, means to go with them); settings of `generate`."""
        rows = prompts["prompt"], prompts["prompt_mask"], keys
        return generate(model, *rows, images=prompts.get("images"), **settings), {}
