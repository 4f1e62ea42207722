"""Answers with a calculator in them: the model writes `<<48/2=`, the machine `24>>`.

The calculator writes into the model's turn. Its tokens have no log-probabilities and no
loss, like the results of tools between turns. Nothing that the model wrote is decoded
and encoded again.
"""

import functools
import itertools

import numpy as np

from helpers.generation import sessions
from helpers.generation.sampling import Dialogue, GrowingAnswer, opened_thoughts, packed
from helpers.generation.sessions import ForcedTokens
from helpers.runtime import distributed
from helpers.runtime.run_identity import describe
from helpers.runtime.sharding import local_rows
from helpers.text import chat, encoding
from helpers.tools import calculator


class CalculatorUse(Dialogue):
    """A `Dialogue` of one turn, in which a calculator finishes the sums.

    An answer stops at every token that ends in `=`, and after `stride` tokens at most.
    If a call is open there (`calculator.opened`), the calculator's result is appended,
    and the answer goes on.

    Args:
      calls: how many calls of an answer are computed. After these the model writes its
        results itself. GSM8K's solutions have up to nine.
      stride: most tokens between two stops. In float32 no answer depends on it; in
        bfloat16 some do, because a stop changes the rounding. Answers that stopped wait
        for the others, so a long stride wastes their time; a short one stops often.
    """

    def __init__(self, *, calls=16, stride=16):
        self.calls, self.stride = calls, stride

    def describe(self):
        """What a run's state says of it."""
        limits = {"calls": self.calls, "stride": self.stride}
        return limits | {"calculator": describe(calculator.reply)}

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key; see `EnvironmentUse.answers`.

        Args:
          max_tokens: budget of an answer, results included. A result that does not fit
            is truncated, and the answer with it.
        Returns:
          Answers; their texts are strings in which the results stand. The metrics are
          `calls` and `refused` (calls an answer that were no sums).
        Raises:
          ValueError, helpers.runtime.ranges.TextTooLong: see `sampling.generate`.
        """
        shape = len(prompts["prompt"]), keys.shape[1]
        stride, eos = min(self.stride, max_tokens), chat.eos_ids(tokenizer)
        stops = stop_ids(tokenizer, model.config.vocab_size)
        answers = [
            [_Answer(tokenizer, max_tokens, eos, self.calls) for _ in range(shape[1])]
            for _ in range(shape[0])
        ]
        rows = prompts["prompt"], prompts["prompt_mask"], shape[1], max_tokens
        # Tokens of the last stride beyond the budget are dropped.
        session = sessions.prefill(model, *rows, prompts.get("images"), spare=stride)
        limits = {"max_tokens": stride, "temperature": temperature}
        limits["eos_ids"] = (*eos, *stops)
        active = np.ones(shape, bool)
        while True:
            forced = _unread(answers, active, stride)
            session, completions = sessions.generate(
                model, session, keys, active, forced=forced, **limits
            )
            tokens, mask, logprobs, _ = local_rows(completions)
            for p, g in zip(*np.nonzero(active), strict=True):
                real = mask[p, g] > 0
                answers[p][g].append(tokens[p, g][real], logprobs[p, g][real], stops)
            active = np.array([[each.goes_on for each in group] for group in answers])
            if not any(distributed.gather(bool(active.any()))):
                described = _described(answers, tokenizer, prompts)
                return packed(answers, max_tokens, *described)
            session = sessions.resume(model, session, active)

    def examples_tokens(self, tokenizer, questions, answers):
        """Encodes worked solutions exactly as sampled answers would be.

        Args:
          tokenizer: from `chat.load_tokenizer`.
          questions: list of str or of message lists.
          answers: list of str, with annotations `<<48/2=24>>`; the machine's result
            takes the place of the author's.
        Returns:
          list of (tokens, loss_mask), as `chat.examples_tokens` gives them; the mask is
          0 on the results of the first `calls` calls, too.
        Raises:
          ValueError: not as many answers as questions, or one has a call that is
            refused.
        """
        solutions = [self._pieces(*item) for item in enumerate(answers)]
        return chat.examples_tokens(tokenizer, questions, solutions)

    def _pieces(self, index, answer):
        """The author's texts and the calculator's results in turn.

        Raises:
          ValueError: a call is refused.
        """
        calls, rest = calculator.split(answer.strip(), self.calls)
        for text, reply in calls:
            if reply == calculator.REFUSED:
                raise ValueError(
                    f"Answer {index} would teach a refused call, {text[-60:]!r}. Write"
                    " it as a sum of plain numbers, or leave out the << >>."
                )
        return [*itertools.chain(*calls), rest]


@functools.lru_cache(maxsize=8)
def stop_ids(tokenizer, vocab):
    """The ids of a vocabulary whose text ends in `=`: where a call may be open.

    Args:
      tokenizer: from `chat.load_tokenizer`.
      vocab: the model's ids, which may be fewer than the tokenizer's.
    Returns:
      tuple of int.
    """
    ids = range(min(len(tokenizer), vocab))
    texts = tokenizer.batch_decode(
        [[i] for i in ids], clean_up_tokenization_spaces=False
    )
    return tuple(i for i in ids if texts[i].endswith(calculator.STOP))


class _Answer(GrowingAnswer):
    """One answer as it grows; the model has not read its tokens in `unread` yet."""

    def __init__(self, tokenizer, budget, eos, most_calls):
        super().__init__()
        self.tokenizer, self.budget, self.eos = tokenizer, budget, eos
        self.unread, self.most_calls = [], most_calls
        self.calls = self.refused = 0

    @property
    def left(self):
        return self.budget - len(self.tokens)

    @property
    def goes_on(self):
        return not self.ended and self.left > 0

    def append(self, tokens, logprobs, stops):
        """Adds a stride's tokens: first those in `unread`, then sampled ones."""
        known = min(len(self.unread), len(tokens))
        self.unread = self.unread[known:]
        sampled = tokens[known:].tolist()[: self.left]
        self.add_sampled(sampled, logprobs[known:].tolist()[: len(sampled)])
        self.ended = bool(sampled) and sampled[-1] in self.eos
        if sampled and sampled[-1] in stops and not self.ended:
            self._calculate()

    def _calculate(self):
        """Writes the result of a call, if one is open."""
        text = self.tokenizer.decode(
            self.tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        expression = calculator.opened(text)
        if expression is None or self.calls == self.most_calls:
            return
        reply = calculator.reply(expression)
        self.calls += 1
        self.refused += reply == calculator.REFUSED
        (ids,) = encoding.encode_plain(self.tokenizer, [reply])
        self.unread = ids[: self.left]
        self.add_result(self.unread)


def _unread(answers, active, width):
    """What the active answers have to read in the next `width` tokens, as arrays."""
    tokens, mask = np.zeros((2, *active.shape, width), np.int32)
    place = np.zeros(active.shape, np.int32)
    for p, g in zip(*np.nonzero(active), strict=True):
        answer = answers[p][g]
        ids = answer.unread[:width]
        tokens[p, g, : len(ids)], mask[p, g, : len(ids)] = ids, 1
        place[p, g] = len(answer.tokens) - len(answer.unread)
    return ForcedTokens(tokens, mask, place)


def _described(answers, tokenizer, prompts):
    """(texts, metrics) of P lists of G answers."""
    counts = [(each.calls, each.refused) for group in answers for each in group]
    means = np.mean(counts, axis=0).tolist()
    rows = zip(opened_thoughts(tokenizer, prompts), answers, strict=True)
    texts = [[m + chat.decode(tokenizer, x.tokens) for x in group] for m, group in rows]
    return texts, dict(zip(("calls", "refused"), means, strict=True))
