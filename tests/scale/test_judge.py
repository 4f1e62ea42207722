"""A judge elsewhere: the same scores, results and state as without one."""

import pickle

import numpy as np
import pytest
import test_source
import toy_tools
from local_crew import LocalCrew
from test_tools import make_with_tools

from helpers.rewards import RewardError
from helpers.rewards.functions import RewardSet
from helpers.scale import FromWorkers, Judge, judged_elsewhere
from helpers.text import chat

BATCHES = 3


class Elsewhere:
    """A judge behind a way through bytes, that counts what it is asked."""

    def __init__(self, judge):
        self.judge, self.asked = judge, []

    def __call__(self, method, *arguments):
        self.asked.append(method)
        arguments = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(getattr(self.judge, method)(*arguments)))


@pytest.mark.parametrize("with_tools", [False, True])
def test_batches_are_those_of_the_synchronous_loop(with_tools, monkeypatch):
    if with_tools:
        monkeypatch.setattr(chat, "eos_ids", toy_tools.often_ends)
    make = make_with_tools if with_tools else test_source.make
    own = make()
    tools = own.dialogue.tools if with_tools else ()
    ask = Elsewhere(Judge(own.reward, tools))

    def judged():
        rollouts = make()
        judged_elsewhere(rollouts, ask)
        return rollouts

    alone = make()
    with FromWorkers(make(), LocalCrew(judged)) as there:
        for _ in range(BATCHES):
            batch, expected = next(there), next(alone)
            assert batch.keys() == expected.keys()
            for name, x in expected.items():
                np.testing.assert_array_equal(batch[name], x, err_msg=name)
            assert {k: there.metrics[k] for k in alone.metrics} == alone.metrics
    assert ask.asked.count("score") >= BATCHES
    assert ("run" in ask.asked) == with_tools


def another(prompts, completions, **columns):
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    "judge, said",
    [
        (lambda own: Judge(RewardSet(another)), "share_of_digits"),
        (lambda own: Judge(RewardSet([(own.rewards[0][1], 2.0)])), "weight"),
        (lambda own: Judge(None), "share_of_digits"),
        (lambda own: Judge(own, [toy_tools.TWICE]), "tool 'twice'"),
    ],
)
def test_a_judge_of_another_run_is_refused_by_name(judge, said):
    rollouts = test_source.make()
    with pytest.raises(ValueError, match="judge is that of another run") as told:
        judged_elsewhere(rollouts, Elsewhere(judge(rollouts.reward)))
    assert said in str(told.value)


def test_what_a_reward_raises_there_is_raised_here():
    def fails(prompts, completions, **columns):
        raise KeyError("answer")

    rollouts = test_source.make()
    rollouts.reward = RewardSet(fails)
    judged_elsewhere(rollouts, Elsewhere(Judge(rollouts.reward)))
    with pytest.raises(RewardError, match="fails"):
        next(rollouts)


def test_without_a_reward_only_tools_are_asked_for(monkeypatch):
    monkeypatch.setattr(chat, "eos_ids", toy_tools.often_ends)
    rollouts = make_with_tools()
    rollouts.reward = None
    ask = Elsewhere(Judge(None, rollouts.dialogue.tools))
    judged_elsewhere(rollouts, ask)
    next(rollouts)
    assert set(ask.asked) == {"describe", "run"}


def test_its_scores_count_and_not_those_of_the_worker():
    rollouts = test_source.make()
    own = Judge(rollouts.reward)

    def ask(method, *arguments):
        if method == "score":
            return [7.0] * len(arguments[1]), {}
        return getattr(own, method)(*arguments)

    judged_elsewhere(rollouts, ask)
    assert (next(rollouts)["rewards"] == 7).all()
