"""Answers with tools: tokens, masks and log-probabilities, and tools that fail."""

import functools
import json
import threading

import jax
import numpy as np
import pytest
import toy_tools
from tiny_models import model as make

from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.model.scoring import group_logprobs
from helpers.rewards.functions import RewardSet
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools.calls import Call, Verdict
from helpers.tools.tool import run_side_by_side

ROWS = [{"question": f"How many are {n} and {n + 1}?"} for n in range(4)]
TOKENIZER = train_tokenizer([row["question"] for row in ROWS] * 3, size=300)
GROUP, BUDGET, RESULT = 8, 5, 120


class Chatty:
    """A grammar in which a random model calls often: by the length of its text."""

    def parse(self, text):
        kind = len(text.encode()) % 4
        if kind == 0:
            return Verdict(text=text)
        if kind == 1:
            return Verdict(error="this is no call")
        return Verdict(calls=tuple(Call("add", {"n": n}) for n in range(kind - 1)))

    def results(self, results, calls=()):
        return [{"role": "user", "content": " ".join(map(json.dumps, results))}]

    def schemas(self, tools):
        return None


def add(n):
    """A tool that raises for every second call of a turn."""
    if n:
        raise RuntimeError("out of order")
    return {"sum": 7}


@functools.cache
def policy():
    return make("llama", vocab=len(TOKENIZER), layers=2)


def source(run=add, reward=None, **settings):
    """Rollouts with tools; every answer counts, however it ended."""
    limits = {"turns": 3, "max_result_tokens": RESULT} | settings
    tools = [toy_tools.make("add", run, n="integer")]
    return Rollouts(
        policy(),
        prompt_batches.prompts(ROWS, TOKENIZER, batch=4, buckets=(64,), seed=0),
        reward,
        TOKENIZER,
        group=GROUP,
        max_tokens=BUDGET,
        mask_truncated=False,
        environment=ToolUse(Chatty(), tools, **limits),
    )


@pytest.fixture
def often_ends(monkeypatch):
    """A tenth of all tokens end a turn, so that turns of five tokens often do."""
    real = chat.eos_ids(TOKENIZER)
    monkeypatch.setattr(
        chat, "eos_ids", lambda tokenizer: (*real, *range(20, len(TOKENIZER), 6))
    )


@pytest.fixture
def traces():
    """(traces, reward): the reward notes the conversations that it is given."""
    traces = []

    def note(prompts, completions, **_):
        traces.extend(completions)
        return list(range(len(completions)))

    return traces, RewardSet(note)


def test_log_probs_and_masks_of_whole_conversations_token_by_token(often_ends, traces):
    """The loss is on the model's turns; between them stand the encoded results."""
    traces, reward = traces
    rollouts = source(reward=reward)
    batch = next(rollouts)
    theirs, _ = jax.jit(functools.partial(group_logprobs, policy()))(
        {name: batch[name] for name in ("prompt", "prompt_mask", "completion")}
    )
    sampled = batch["loss_mask"] > 0
    assert np.abs(np.where(sampled, batch["logprobs"] - theirs, 0)).max() < 1e-4
    assert np.all(batch["logprobs"][~sampled] == 0)
    assert rollouts.metrics["turns"] > 1.3 and rollouts.metrics["calls"] > 0.2
    eos, results = chat.eos_ids(TOKENIZER), 0
    for index, trace in enumerate(traces):
        place = divmod(index, GROUP)
        tokens, mask, start = batch["completion"][place], sampled[place], 0
        for role, text in trace.segments:
            if role == "assistant":
                stop = start
                while stop - start < BUDGET and tokens[stop] not in eos:
                    stop += 1
                turn = tokens[start:stop].tolist()
                assert TOKENIZER.decode(turn, skip_special_tokens=False) == text
                end = min(stop + 1, start + BUDGET)
                assert mask[start:end].all()
            else:
                message = [{"role": "user", "content": text}]
                result = chat.turn_tokens(TOKENIZER, message)
                end = start + len(result)
                assert tokens[start:end].tolist() == result
                assert not mask[start:end].any()
                results += 1
            start = end
        assert not mask[start:].any()
    assert results > 5


def test_a_tool_that_raises_costs_its_call_an_error_and_nobody_else(often_ends, traces):
    traces, reward = traces
    rollouts = source(reward=reward)
    next(rollouts)
    calls = [pair for trace in traces for pair in trace.calls]
    assert {call.arguments["n"] for call, _ in calls} == {0, 1}
    for call, result in calls:
        broken = {"error": "the tool failed: RuntimeError"}
        assert result == (broken if call.arguments["n"] else {"sum": 7})
    share = sum(call.arguments["n"] for call, _ in calls) / len(traces)
    assert rollouts.metrics["failed"] == pytest.approx(share)
    assert rollouts.metrics["calls"] == pytest.approx(len(calls) / len(traces))


def test_tools_run_side_by_side_and_one_that_hangs_is_an_error_in_time():
    """Nine calls wait for each other, which only works at once; the tenth for ever."""
    stop, together, late = threading.Event(), threading.Barrier(9), []

    def slow(n):
        if n == 3:
            stop.wait(600)
            late.append(n)
        else:
            together.wait(600)
        return {"n": n}

    calls = [Call("slow", {"n": n}) for n in range(10)]
    results = run_side_by_side([toy_tools.make("slow", slow, n="number")], calls, 3)
    assert not late, "the one that hangs was waited for"
    stop.set()
    assert "3 s" in results.pop(3)["error"]
    assert results == [{"n": n} for n in range(10) if n != 3]


def test_a_result_that_is_too_long_is_an_error_that_the_model_reads(often_ends, traces):
    traces, reward = traces

    def long(n):
        return {"text": "9" * 200}

    next(source(run=long, reward=reward))
    texts = [
        text for trace in traces for role, text in trace.segments if role == "tool"
    ]
    assert any("too long" in text for text in texts)
    assert not any("999" in text for text in texts)
    # Rewards see the result that the model saw.
    results = [result for trace in traces for _, result in trace.calls]
    assert results and all(result == {"error": "too long"} for result in results)
    with pytest.raises(ValueError, match="may take 3 tokens.*max_result_tokens"):
        next(source(max_result_tokens=3))
