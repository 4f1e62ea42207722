"""Answers that may call tools: sampled turn by turn, with the results in between.

All answers of a batch take a turn at once. Results are appended to those that called a
tool, in the same cache, and these take another turn. A call that fails, is late or
cannot be parsed gives an error that its answer reads and may learn from.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from helpers.generation.environment_use import EnvironmentUse
from helpers.runtime.run_identity import describe
from helpers.text import chat
from helpers.tools.calls import Call, Verdict
from helpers.tools.environment import Step
from helpers.tools.tool import by_name, run_side_by_side

GRACE = 5.0  # seconds in which a turn's calls, which ended in time, become its reply


class ToolUse(EnvironmentUse):
    """An `EnvironmentUse` of tools, which answer calls by their results.

    Args:
      grammar: of the model's family, from `helpers.tools.calls`.
      tools: list of `tool.Tool`. A family whose chat template has tools needs them in
        its prompts: pass `environment=use` to `prompt_batches.prompts`.
      turns: most turns of an answer; a call in the last one is not run.
      max_result_tokens: most tokens of results between two turns; longer ones are
        errors.
      seconds: time limit for all the calls of one turn together.
      more: `thoughts` and `failures`, see `EnvironmentUse`.

    Raises:
      ValueError: two tools have one name.
    """

    has_openings = False
    shown_role = "tool"
    threads = sys.maxsize  # the calls of all answers run at once

    def __init__(
        self, grammar, tools, *, turns=3, max_result_tokens=64, seconds=10.0, **more
    ):
        more |= {"max_reply_tokens": max_result_tokens, "seconds": seconds + GRACE}
        super().__init__(self._environment, turns=turns, **more)
        self.grammar, self.tools = grammar, list(by_name(tools).values())
        self.max_result_tokens, self.call_seconds = max_result_tokens, seconds
        self.reply_role = "tool" if self.schemas else "user"

    def _environment(self):
        return ToolEnvironment(self, self.tools)

    @property
    def schemas(self):
        """JSON schemas for the chat template; None if it takes none."""
        return self.grammar.schemas(self.tools)

    def describe(self):
        """What must be the same for a run to be resumed."""
        limits = {"turns": self.turns, "max_result_tokens": self.max_result_tokens}
        if self.thoughts != "keep":
            limits["thoughts"] = self.thoughts
        tools = {tool.name: describe(tool) for tool in self.tools}
        return limits | {"grammar": describe(self.grammar), "tools": tools}

    def reply(self, answer):
        """The results of an answer's calls; errors where they are too long.

        Raises:
          ValueError: `max_result_tokens` is too small for any error.
        """
        there, ended = answer.environment, answer.tokens[-1]
        pair = there.verdict, there.results
        turn = result_turn(self, answer.tokenizer, *pair, ended)
        if there.verdict.calls:
            there.calls += zip(there.verdict.calls, turn.results, strict=True)
        return turn.messages, turn.tokens

    def parse(self, text):
        """What a turn of the model is, as the family writes it."""
        return self.grammar.parse(text)

    def of_environment(self, environment):
        """The calls that were run, and the tools."""
        return environment.calls, environment

    def metrics(self, traces):
        """`turns`, `broken`, `calls`, `malformed` (turns an answer that could not be
        read), and `failed` (calls an answer whose result is an error).
        """

        def mean(count):
            return float(np.mean([count(trace) for group in traces for trace in group]))

        return super().metrics(traces) | {
            "calls": mean(lambda trace: len(trace.calls)),
            "malformed": mean(lambda trace: sum(bool(t.error) for t in trace.turns)),
            "failed": mean(lambda trace: sum("error" in r for _, r in trace.calls)),
        }


class ToolEnvironment:
    """Tools as an `Environment`: replies to calls, and to those that cannot be read.

    Args:
      use: the ToolUse that it belongs to.
      tools: list of `tool.Tool`, those that there are.
    """

    at_once = sys.maxsize  # calls of a turn

    def __init__(self, use, tools):
        self.use, self.tools, self.turn = use, tools, 0
        self.verdict, self.results = Verdict(), []  # of the last turn
        self.calls: list[tuple[Call, dict[str, Any]]] = []  # with what the model read

    def reset(self, row, seed):
        """Begins with the row's question."""

    def step(self, completion):
        """Runs the calls of a turn; one without calls is the answer."""
        self.turn += 1
        grammar = self.use.grammar
        self.verdict = grammar.parse(completion)
        calls, error = self.verdict.calls, self.verdict.error
        if not (calls or error) or self.turn == self.use.turns:
            return Step(done=True)
        ran = run_side_by_side(self.tools, calls, self.use.call_seconds, self.at_once)
        self.results = ran or [{"error": error}]
        return Step(grammar.results(self.results, calls))


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
