"""Answers from a table in place of a model's, for tests of what they are worth."""

import numpy as np

from helpers.generation.sampling import Answers, Dialogue
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["How many kcal?"], 300)


class Scripted(Dialogue):
    """Answers as {question: (greedy, [samples])} has them, texts or traces.

    A text that ends in "…" runs out of budget there. A token is a character, and the
    end is one.
    """

    def __init__(self, table, ended=True):
        self.table, self.calls, self.ended = table, [], ended

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature):
        P, G = keys.shape
        self.calls.append((P, G, temperature))
        mask, ended = np.zeros((P, G, max_tokens), np.int32), np.zeros((P, G), bool)
        texts = []
        rows = zip(prompts["prompt"], prompts["prompt_mask"], strict=True)
        for p, (tokens, real) in enumerate(rows):
            text = tokenizer.decode(tokens[real > 0])
            greedy, samples = self.table[text.split("user\n")[1].split("<end_of")[0]]
            texts.append([])
            for g, answer in enumerate([greedy] if temperature == 0 else samples):
                ended[p, g] = self.ended and not str(answer).endswith("…")
                answer = answer.rstrip("…") if isinstance(answer, str) else answer
                texts[p].append(answer)
                mask[p, g, : len(str(answer)) + ended[p, g]] = 1
        return Answers(mask, mask, mask * 0.0, ended, texts, {}, ~ended & False)
