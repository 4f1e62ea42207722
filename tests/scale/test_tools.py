"""Rollouts with tools, sampled by workers: calls run where the answers are sampled."""

import pickle

import numpy as np
import toy_tools
from local_crew import LocalCrew
from test_source import make, share_of_digits

from helpers.generation.tool_use import ToolUse
from helpers.rewards.functions import RewardSet
from helpers.scale.source import FromWorkers
from helpers.text import chat

BATCHES = 3


def of_traces(prompts, completions, **_):
    return share_of_digits(prompts, [str(trace) for trace in completions])


def make_with_tools():
    """The rollouts of the other tests, with a tool."""
    rollouts = make()
    rollouts.reward = RewardSet(of_traces)
    tools = [toy_tools.TWICE]
    rollouts.dialogue = ToolUse(
        toy_tools.Chatty(), tools, turns=2, max_result_tokens=40
    )
    return rollouts


def test_answers_with_tools_are_those_of_the_synchronous_loop(monkeypatch):
    """Bit by bit, after a way through bytes, as between machines."""
    monkeypatch.setattr(chat, "eos_ids", toy_tools.often_ends)

    def sent(worker, asked, piece):
        return pickle.loads(pickle.dumps(piece))

    alone = make_with_tools()
    with FromWorkers(make_with_tools(), LocalCrew(make_with_tools, fate=sent)) as there:
        for _ in range(BATCHES):
            batch, expected = next(there), next(alone)
            assert batch.keys() == expected.keys()
            for name, x in expected.items():
                np.testing.assert_array_equal(batch[name], x, err_msg=name)
            assert {k: there.metrics[k] for k in alone.metrics} == alone.metrics
            assert there.samples == alone.samples
            assert 0.1 < alone.metrics["calls"] < alone.metrics["turns"] < 2
    heard = (batch["completion"] > 0) & (batch["loss_mask"] == 0)
    assert heard.any(), "what tools said is read, and not learned"


def test_a_worker_with_other_tools_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(chat, "eos_ids", toy_tools.often_ends)
    rollouts = make_with_tools()
    rollouts.dialogue.max_result_tokens = 41
    said = []
    source = FromWorkers(
        rollouts, LocalCrew(make_with_tools), patience=1, say=said.append
    )
    assert next(source, None) is None
    assert "max_result_tokens was 41, here it is 40" in str(source.stopped)
