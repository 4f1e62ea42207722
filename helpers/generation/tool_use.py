"""Answers that may call tools: sampled turn by turn, with the results in between.

All answers of a batch take a turn at once. Results are appended to those that called a
tool, in the same cache, and these take another turn. A call that fails, is late or
cannot be parsed gives an error that its answer reads and may learn from.
"""

from typing import NamedTuple

import numpy as np

from helpers.generation import sessions
from helpers.generation.sampling import Dialogue, GrowingAnswer, opened_thoughts, packed
from helpers.runtime import distributed
from helpers.runtime.run_identity import describe
from helpers.runtime.sharding import local_rows
from helpers.text import chat
from helpers.tools.tool import Trace, by_name, run_side_by_side


class ToolUse(Dialogue):
    """A `Dialogue` of several turns, with tools between them.

    Args:
      grammar: of the model's family, from `helpers.tools.calls`.
      tools: list of `tool.Tool`. A family whose chat template has tools needs them in
        its prompts: pass `tools=use.schemas` to `prompt_batches.prompts`.
      turns: most turns of an answer; a call in the last one is not run.
      max_result_tokens: most tokens of results between two turns; longer ones are
        errors.
      seconds: time limit for all the calls of one turn together.

    Raises:
      ValueError: two tools have one name.
    """

    def __init__(self, grammar, tools, *, turns=3, max_result_tokens=64, seconds=10.0):
        self.grammar, self.tools = grammar, list(by_name(tools).values())
        self.turns, self.seconds = turns, seconds
        self.max_result_tokens = max_result_tokens

    def width(self, max_tokens):
        """Most tokens of an answer, results of tools included."""
        return sessions.columns(self.turns, max_tokens, self.max_result_tokens)

    @property
    def schemas(self):
        """JSON schemas for the chat template; None if it takes none."""
        return self.grammar.schemas(self.tools)

    def describe(self):
        """What must be the same for a run to be resumed."""
        limits = {"turns": self.turns, "max_result_tokens": self.max_result_tokens}
        tools = {tool.name: describe(tool) for tool in self.tools}
        return limits | {"grammar": describe(self.grammar), "tools": tools}

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key, turn by turn.

        Args:
          model: the policy. tokenizer: from `chat.load_tokenizer`.
          prompts: batch from `prompt_batches.prompts`, `images` included where it has
            them.
          keys: (P, G) random keys.
          max_tokens: budget of one turn.
          temperature: 0 is greedy.
        Returns:
          Answers, with the metrics `turns`, `calls`, `malformed` (turns a answer that
          could not be read), `failed` (calls an answer whose result is an error).
        Raises:
          ValueError: `max_result_tokens` is too small for any error.
        """
        P, G = len(prompts["prompt"]), keys.shape[1]
        answers = [
            [_Conversation(self, tokenizer, opened) for _ in range(G)]
            for opened in opened_thoughts(tokenizer, prompts)
        ]
        rows = prompts["prompt"], prompts["prompt_mask"], G, self.width(max_tokens)
        session = sessions.prefill(model, *rows, prompts.get("images"))
        active = np.ones((P, G), bool)
        limits = {"max_tokens": max_tokens, "eos_ids": chat.eos_ids(tokenizer)}
        for turn in range(self.turns):
            session, completions = sessions.generate(
                model, session, keys, active, temperature=temperature, **limits
            )
            tokens, mask, logprobs, ended = local_rows(completions)
            places = list(zip(*np.nonzero(active), strict=True))
            for p, g in places:
                real = mask[p, g] > 0
                turn_PG = tokens[p, g][real], logprobs[p, g][real], ended[p, g]
                answers[p][g].append_turn(*turn_PG)
            is_last = turn == self.turns - 1
            calling = [answers[p][g] for p, g in places if answers[p][g].awaits_results]
            if is_last or not any(distributed.gather(bool(calling))):
                break
            distributed.together(lambda calling=calling: self._run(calling))
            results, real = np.zeros((2, P, G, self.max_result_tokens), np.int32)
            for p, g in places:
                ids = answers[p][g].append_results()
                results[p, g, : len(ids)], real[p, g, : len(ids)] = ids, 1
            active = real.any(axis=-1)
            session = sessions.append_tokens(model, session, results, real)
        traces = [[each.trace for each in group] for group in answers]
        metrics = _metrics(sum(traces, []))
        return packed(answers, self.width(max_tokens), traces, metrics)

    def _run(self, calling):
        """Runs the calls of all answers side by side, and gives each its results."""
        calls = [call for each in calling for call in each.verdict.calls]
        results = iter(run_side_by_side(self.tools, calls, self.seconds))
        for each in calling:
            each.results = [next(results) for _ in each.verdict.calls]


class _Conversation(GrowingAnswer):
    """One answer as it grows: its tokens, and what they mean.

    opened: what the text before its next turn opens a thought with, or "".
    """

    def __init__(self, use, tokenizer, opened):
        super().__init__()
        self.use, self.tokenizer, self.opened = use, tokenizer, opened
        self.segments, self.turns, self.calls = [], [], []
        self.results = []

    @property
    def verdict(self):
        return self.turns[-1]

    @property
    def awaits_results(self):
        """Whether its last turn was a call, or a call that cannot be parsed."""
        return self.ended and bool(self.verdict.calls or self.verdict.error)

    def append_turn(self, tokens, logprobs, ended):
        text = self.opened + turn_text(self.tokenizer, tokens, ended)
        self.turns.append(self.use.grammar.parse(text))
        self.segments.append(("assistant", text))
        self.ended = bool(ended)
        self.add_sampled(tokens.tolist(), logprobs.tolist())

    def append_results(self):
        """Appends the results of its last turn; returns their tokens."""
        if not self.awaits_results:
            return []
        results = self.results or [{"error": self.verdict.error}]
        ended = self.tokens[-1]
        turn = result_turn(self.use, self.tokenizer, self.verdict, results, ended)
        if self.verdict.calls:
            self.calls += zip(self.verdict.calls, turn.results, strict=True)
        self.segments += [("tool", message["content"]) for message in turn.messages]
        self.results = []
        self.add_result(turn.tokens)
        (self.opened,) = chat.opened_thoughts(self.tokenizer, [turn.tokens])
        return turn.tokens

    @property
    def trace(self):
        return Trace(tuple(self.segments), tuple(self.turns), tuple(self.calls))


class ResultTurn(NamedTuple):
    """The results of a turn's calls, as messages and as tokens."""

    results: list
    messages: list
    tokens: list


def result_turn(use, tokenizer, verdict, results, ended) -> ResultTurn:
    """The turn with the results of a model's calls; errors if they are too long.

    Args:
      use: a ToolUse, or what has its grammar, schemas and `max_result_tokens`.
      verdict: of the turn that called, or that could not be read.
      results: one dict per call; one error where the turn could not be read.
      ended: id of the token that ended that turn.
    Raises:
      ValueError: even a short error takes more than `use.max_result_tokens` tokens.
    """
    for shown in (results, [{"error": "too long"}] * len(results)):
        messages = use.grammar.results(shown, verdict.calls)
        tokens = chat.turn_tokens(tokenizer, messages, tools=use.schemas, ended=ended)
        if len(tokens) <= use.max_result_tokens:
            return ResultTurn(shown, messages, tokens)
    raise ValueError(
        f"Results may take {use.max_result_tokens} tokens, even a short error takes "
        f"{len(tokens)}. Pass a larger `max_result_tokens`."
    )


def turn_text(tokenizer, tokens, ended):
    """The text of a turn that a model wrote, control tokens included but for its EOS.

    Args:
      tokens: int array of one axis. ended: whether the last one is an EOS.
    """
    return tokenizer.decode(
        tokens[: len(tokens) - bool(ended)].tolist(),
        skip_special_tokens=False,
        clean_up_tokenization_spaces=False,
    )


def _metrics(traces):
    def mean(count):
        return float(np.mean([count(trace) for trace in traces]))

    return {
        "turns": mean(lambda trace: len(trace.turns)),
        "calls": mean(lambda trace: len(trace.calls)),
        "malformed": mean(lambda trace: sum(bool(t.error) for t in trace.turns)),
        "failed": mean(lambda trace: sum("error" in r for _, r in trace.calls)),
    }
