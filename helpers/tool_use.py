"""Answers that may call tools: sampled turn by turn, each with what its calls gave.

All answers of a batch speak at once; those that called are told the results, in the
same cache, and speak again. A call that fails, is late or makes no sense is an error
that its own answer is told, and may learn from; the run goes on.
"""

import json
import threading
import time

import numpy as np

from helpers import chat, processes, sessions
from helpers.identity import describe
from helpers.one_turn import Answers
from helpers.sharding import own_rows
from helpers.traces import Trace


class ToolUse:
    """Answers of several turns, with tools between them.

    Args:
      grammar: of the model's family, from `helpers.tool_calls`.
      run_tool: (name, arguments) -> dict for JSON. Called from several threads.
      turns: most turns of an answer; a call in the last one is not run.
      heard: most tokens an answer is told at once; a longer result is an error.
      seconds: for all the calls of one turn together; who is late gets an error.
    """

    def __init__(self, grammar, run_tool, *, turns=3, heard=64, seconds=10.0):
        if turns < 1 or heard < 1 or seconds <= 0:
            raise ValueError(
                f"turns {turns} and heard {heard} must be at least 1, seconds "
                f"{seconds} more than 0."
            )
        self.grammar, self.run_tool = grammar, run_tool
        self.turns, self.heard, self.seconds = turns, heard, seconds

    def width(self, max_tokens):
        """Most tokens of an answer, what it hears included."""
        return sessions.columns(self.turns, max_tokens, self.heard)

    def describe(self):
        """What a run's state says of it."""
        limits = {"turns": self.turns, "heard": self.heard}
        tool = {"grammar": describe(self.grammar), "tool": describe(self.run_tool)}
        return limits | tool

    def answers(self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0):
        """Samples an answer for each key, turn by turn.

        Args:
          model: the policy. tokenizer: from `chat.load_tokenizer`.
          prompts: batch from `pipeline.prompts`, `images` included where it has them.
          keys: (P, G) random keys.
          max_tokens: budget of one turn.
          temperature: 0 is greedy.
        Returns:
          Answers, with the metrics `turns`, `calls`, `malformed` (turns a answer that
          could not be read), `failed` (calls an answer whose result is an error),
          `repeated` (calls an answer that it had made before).
        Raises:
          ValueError: `heard` is too small for any error to be told.
        """
        P, G = len(prompts["prompt"]), keys.shape[1]
        talks = [[_Talk(self, tokenizer) for _ in range(G)] for _ in range(P)]
        session = sessions.begin(
            model,
            prompts["prompt"],
            prompts["prompt_mask"],
            G,
            self.width(max_tokens),
            prompts.get("images"),
        )
        active = np.ones((P, G), bool)
        limits = {"max_tokens": max_tokens, "eos_ids": chat.eos_ids(tokenizer)}
        for turn in range(self.turns):
            session, said = sessions.reply(
                model, session, keys, active, temperature=temperature, **limits
            )
            tokens, mask, logprobs, ended = own_rows(said)
            places = list(zip(*np.nonzero(active), strict=True))
            for p, g in places:
                real = mask[p, g] > 0
                talks[p][g].say(tokens[p, g][real], logprobs[p, g][real], ended[p, g])
            is_last = turn == self.turns - 1
            calling = [talks[p][g] for p, g in places if talks[p][g].expects]
            if is_last or not any(processes.gather(bool(calling))):
                break
            processes.together(lambda calling=calling: self._run(calling))
            heard, real = np.zeros((2, P, G, self.heard), np.int32)
            for p, g in places:
                told = talks[p][g].hear()
                heard[p, g, : len(told)], real[p, g, : len(told)] = told, 1
            active = real.any(axis=-1)
            session = sessions.hear(model, session, heard, real)
        return _packed(talks, self.width(max_tokens))

    def _run(self, calling):
        """Runs the calls of all answers side by side, and tells each its results."""
        calls = [call for talk in calling for call in talk.verdict.calls]
        results = iter(run_side_by_side(self.run_tool, calls, self.seconds))
        for talk in calling:
            talk.results = [next(results) for _ in talk.verdict.calls]


class _Talk:
    """One answer as it grows: its tokens, and what they mean."""

    def __init__(self, use, tokenizer):
        self.use, self.tokenizer = use, tokenizer
        self.tokens, self.mask, self.logprobs = [], [], []
        self.segments, self.turns, self.calls = [], [], []
        self.ended, self.results = False, []

    @property
    def verdict(self):
        return self.turns[-1]

    @property
    def expects(self):
        """Whether it waits for an answer to a call, or to what was meant as one."""
        return self.ended and bool(self.verdict.calls or self.verdict.error)

    def say(self, tokens, logprobs, ended):
        own = tokens[: len(tokens) - bool(ended)].tolist()  # its EOS is no text
        text = self.tokenizer.decode(
            own, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        self.turns.append(self.use.grammar.parse(text))
        self.segments.append(("assistant", text))
        self.ended = bool(ended)
        self._add(tokens.tolist(), [1] * len(tokens), logprobs.tolist())

    def hear(self):
        """The tokens it is told now, [] if it expects nothing."""
        if not self.expects:
            return []
        self.calls += zip(self.verdict.calls, self.results, strict=True)
        results = self.results or [{"error": self.verdict.error}]
        tokens, told = self._told(results)
        if len(tokens) > self.use.heard:
            tokens, told = self._told([{"error": "too long"}] * len(results))
        if len(tokens) > self.use.heard:
            raise ValueError(
                f"An answer is told at most heard={self.use.heard} tokens at once, and "
                f"even a short error takes {len(tokens)}. Pass a larger `heard`."
            )
        self.segments += [("tool", message["content"]) for message in told]
        self.results = []
        self._add(tokens, [0] * len(tokens), [0.0] * len(tokens))
        return tokens

    def _told(self, results):
        messages = self.use.grammar.results(results, self.verdict.calls)
        return chat.turn_tokens(self.tokenizer, messages), messages

    def _add(self, tokens, mask, logprobs):
        self.tokens += tokens
        self.mask += mask
        self.logprobs += logprobs

    @property
    def trace(self):
        return Trace(tuple(self.segments), tuple(self.turns), tuple(self.calls))


def run_side_by_side(run_tool, calls, seconds):
    """The results of calls, each an error where the tool raised, was late or no JSON.

    Args:
      run_tool: (name, arguments) -> dict.
      calls: list of `tool_calls.Call`.
      seconds: for all of them together.
    Returns:
      list of dicts, one per call.
    """
    results = [{"error": f"no result within {seconds:g} s"} for _ in calls]

    def run(index, call):
        try:
            result = run_tool(call.name, call.arguments)
            json.dumps(result, ensure_ascii=False).encode()  # or nobody can be told it
        except Exception as error:
            result = {"error": f"the tool failed: {type(error).__name__}"}
        if not isinstance(result, dict):
            result = {"error": "the tool gave no result"}
        results[index] = result

    # Daemons: a tool that hangs must not keep the process from ending.
    threads = [
        threading.Thread(target=run, args=item, daemon=True)
        for item in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(results)  # who comes later writes into the other list


def _packed(talks, width):
    """Answers of all talks, padded on the right."""
    shape = len(talks), len(talks[0]), width
    tokens, mask = np.zeros((2, *shape), np.int32)
    logprobs = np.zeros(shape, np.float32)
    for place in np.ndindex(shape[:2]):
        talk = talks[place[0]][place[1]]
        tokens[place][: len(talk.tokens)] = talk.tokens
        mask[place][: len(talk.mask)] = talk.mask
        logprobs[place][: len(talk.logprobs)] = talk.logprobs
    flat = [talk for group in talks for talk in group]
    ended = np.array([[talk.ended for talk in group] for group in talks])
    texts = [[talk.trace for talk in group] for group in talks]
    return Answers(tokens, mask, logprobs, ended, texts, _metrics(flat))


def _metrics(talks):
    def mean(count):
        return float(np.mean([count(talk) for talk in talks]))

    return {
        "turns": mean(lambda talk: len(talk.turns)),
        "calls": mean(lambda talk: len(talk.calls)),
        "malformed": mean(lambda talk: sum(bool(t.error) for t in talk.turns)),
        "failed": mean(lambda talk: sum("error" in r for _, r in talk.calls)),
        "repeated": mean(lambda talk: _repeats([call for call, _ in talk.calls])),
    }


def _repeats(calls):
    return sum(call in calls[:index] for index, call in enumerate(calls))
