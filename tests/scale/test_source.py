"""The batch source of asynchronous RL against the synchronous loop, and under mishaps.

Workers are threads of this process (`local_pool`); `make scale` has real ones.
"""

import functools
import json
import pickle
import threading
import time

import numpy as np
import pytest
import toy_environments
import toy_tools
import toy_training
from flax import nnx
from local_pool import LocalPool

from helpers.batches import prompt_batches
from helpers.generation.environment_use import EnvironmentUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.rewards.functions import RewardSet, environment_reward
from helpers.scale import source as source_module
from helpers.scale.source import FromWorkers, draw_request
from helpers.scale.workers import RunStopped, Worker, WorkerLost
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.state import NothingToLearn
from helpers.training.trainer import Trainer

STEPS, UPDATES = 4, {}


@functools.cache
def rows_and_tokenizer():
    rows = word_problems.generate(24, seed=1, levels=(1,))
    return rows, train_tokenizer([r["question"] + r["answer"] for r in rows], 320)


def share_of_digits(prompts, completions, **columns):
    """A reward that differs between the answers of an untrained model."""
    return [sum(map(str.isdigit, text)) / (1 + len(text)) for text in completions]


def make(epochs=None, seed=7):
    """Rollouts of a model of its own; what workers and the trainer begin with."""
    rows, tokenizer = rows_and_tokenizer()
    config = ModelConfig("llama", 320, 16, 1, 2, 1, 8, 32)
    model = Transformer(config, nnx.Rngs(0))
    prompts = prompt_batches.prompts(
        rows, tokenizer, batch=2, buckets=(256,), seed=5, epochs=epochs
    )
    return Rollouts(
        model, prompts, share_of_digits, tokenizer, group=4, max_tokens=8,
        seed=seed, mask_truncated=False,
    )  # fmt: skip


def trainer_of(rollouts, folder=None, **settings):
    objective = objectives.policy_gradient(sampler_cap=2.0)
    trainer = Trainer(
        rollouts.model, objective, adamw(3e-3), folder=folder, log=False, **settings
    )
    return toy_training.sharing_update(trainer, UPDATES)


@functools.cache
def synchronous():
    """Weights and table of the loop with Rollouts themselves."""
    rollouts = make()
    trainer = trainer_of(rollouts)
    table = trainer.fit(rollouts, STEPS)
    return toy_training.weights(rollouts.model), table


def asynchronous(pool=None, steps=STEPS, folder=None, save_every=0, **settings):
    """The trainer, its batch source and the lines."""
    rollouts, lines = make(), []
    source = FromWorkers(
        rollouts, pool or LocalPool(make), say=lines.append, **settings
    )
    trainer = trainer_of(rollouts, folder, save_every=save_every)
    with source as batches:
        trainer.table = trainer.fit(batches, steps)
    return trainer, source, lines


def assert_same_run(trainer):
    weights, table = synchronous()
    for name, x in toy_training.weights(trainer.model).items():
        np.testing.assert_array_equal(x, weights[name], err_msg=name)
    for row, expected in zip(trainer.table, table, strict=True):
        for name in ("loss", "reward", "grad_norm", "tokens", "ratio_mean", "length"):
            assert row[name] == expected[name], (row["step"], name)


def test_one_worker_that_never_runs_ahead_is_the_synchronous_loop_bit_by_bit():
    trainer, source, lines = asynchronous()
    assert_same_run(trainer)
    assert lines == [] and source.learned == list(range(STEPS))
    assert [row["staleness"] for row in trainer.table] == [0] * STEPS


def test_it_stays_the_same_run_when_every_worker_dies_and_answers_are_broken():
    """Without running ahead, who answers and how often it was asked changes nothing."""

    def fate(worker, count, piece):
        if count % 3 == 1:
            raise WorkerLost("killed")
        if count % 3 == 2:
            piece.batch["logprobs"] = piece.batch["logprobs"] + np.nan
        return piece

    pool = LocalPool(make, count=3, fate=fate)
    trainer, source, lines = asynchronous(pool)
    assert_same_run(trainer)
    assert source.buffer.returned == len(pool.replaced) == len(lines) == 2 * STEPS
    assert sum("killed. The questions are asked again" in text for text in lines) == 4
    assert sum("logprobs has numbers" in text for text in lines) == 4


class Killed(BaseException):
    """What stands for the end of the trainer's process."""


def test_it_stays_the_same_run_when_the_trainer_is_killed(tmp_path):
    """A new trainer, with workers that are still there or with new ones."""
    pool = LocalPool(make, count=2)
    for stop in (1, 3):
        rollouts = make()
        source = FromWorkers(rollouts, pool, say=print)
        draw, drawn = source._batch, []

        def dying(*args, draw=draw, drawn=drawn, stop=stop):
            drawn.append(1)
            if len(drawn) == stop:
                raise Killed
            return draw(*args)

        source._batch = dying
        with pytest.raises(Killed), source as batches:
            trainer_of(rollouts, tmp_path, save_every=1).fit(batches, STEPS)
        source.close()
    trainer, source, _ = asynchronous(pool, folder=tmp_path, save_every=1)
    assert_same_run(trainer)
    state = source.get_state()["buffer"]
    assert state["version"] == STEPS == state["drawn"] - len(state["due"])


def test_running_ahead_is_bounded_and_weighed():
    pool = LocalPool(make, count=3, fate=lambda w, a, piece: time.sleep(0.02) or piece)
    trainer, source, _ = asynchronous(pool, steps=8, limit=2)
    ages = [row["staleness"] for row in trainer.table]
    assert max(ages) <= 2 and 0 < sum(ages)
    assert len(source.learned) == len({*source.learned}) == 8
    gaps = [row["logprob_gap"] for row in trainer.table]
    by_age = [(age > 0, gap) for gap, age in zip(gaps, ages, strict=True)]
    assert max(gap for old, gap in by_age if not old) < 1e-5
    # Not of every batch: an update whose groups were all tied moves nothing.
    assert max(gap for old, gap in by_age if old) > 1e-3, "sampled by another policy"


def test_a_hanging_worker_is_replaced():
    never = threading.Event()

    def fate(worker, count, piece):
        if count == 2:
            never.wait(30)
        return piece

    pool = LocalPool(make, fate=fate)
    synchronous()  # compiled before the clock runs
    trainer, source, lines = asynchronous(pool, deadline=3.0)
    never.set()
    assert_same_run(trainer)
    assert pool.replaced == [0] and "gave no answer for 3 s" in lines[0]


def test_workers_of_another_run_are_refused_by_name():
    pool = LocalPool(functools.partial(make, seed=8))
    with pytest.raises(RunStopped, match="seed was 7, here it is 8"):
        asynchronous(pool, patience=2)


def test_the_last_batch_has_what_is_left():
    fewer = functools.partial(make, epochs=1)
    source = FromWorkers(fewer(), LocalPool(fewer, 2), pieces=5)
    with source as batches:
        assert [len(batch["prompt"]) // 2 for batch in batches] == [5, 5, 2]
    assert sorted(source.learned) == list(range(12)), "none was lost"


def make_tied():
    rollouts = make()
    rollouts.reward = RewardSet(lambda prompts, completions, **_: [1.0] * 8)
    return rollouts


def test_batches_that_teach_nothing_end_the_run_as_they_do_the_synchronous_loop():
    source = FromWorkers(make_tied(), LocalPool(make_tied, 2), limit=2)
    with (
        pytest.raises(NothingToLearn, match="In 5 batches in a row"),
        source as batches,
    ):
        trainer_of(source.rollouts).fit(batches, 20)
    assert len(source.learned) == 4


def test_the_state_of_another_run_is_refused():
    state = FromWorkers(make(), LocalPool(make)).get_state()
    with pytest.raises(ValueError, match="limit was .*Pass fresh=True"):
        FromWorkers(make(), LocalPool(make), limit=1).set_state(state)
    with pytest.raises(ValueError, match="Pass fresh=True"):
        FromWorkers(make(), LocalPool(make)).set_state(make().get_state())


def test_answers_that_may_be_old_need_an_objective_that_weighs_them():
    rollouts = make()
    source = FromWorkers(rollouts, LocalPool(make), limit=1)
    trainer = Trainer(rollouts.model, objectives.gspo(), adamw(1e-3), log=False)
    with pytest.raises(ValueError, match="sampler_cap=2.0"), source as batches:
        trainer.fit(batches, 1)


def test_workers_answer_with_what_the_trainer_trains():
    """Whatever its wrt says: they are sent that, and nothing else."""
    rollouts, pool = make(), LocalPool(make)
    before = toy_training.weights(rollouts.model)
    source = FromWorkers(rollouts, pool)
    with source as batches:
        queries = trainer_of(rollouts, wrt=lambda path, _: path[-1] == "q")
        queries.fit(batches, 2)
        next(batches)
    trained = toy_training.weights(rollouts.model)
    sampling = toy_training.weights(pool.members[0].rollouts.model)
    moved = [name for name in before if (before[name] != trained[name]).any()]
    assert len(moved) == 1 == len(pool.newest[1])
    for name, x in trained.items():
        np.testing.assert_array_equal(sampling[name], x, err_msg=name)


def test_the_end_of_the_cluster_ends_the_run_with_all_saved(tmp_path, monkeypatch):
    """Also where a call to the cluster that is gone never comes back."""
    monkeypatch.setattr(source_module, "JOIN", 0.5)
    gone, never = threading.Event(), threading.Event()

    class Goes(LocalPool):
        def require_running(self):
            if gone.is_set():
                raise RunStopped("the head is gone")

        def result(self, handle):
            if self.newest[0] < 2:
                return super().result(handle)
            gone.set()
            never.wait()

    with pytest.raises(RunStopped, match="head is gone"):
        asynchronous(Goes(make), folder=tmp_path)
    never.set()
    records = list(tmp_path.glob("checkpoints/*/checkpoint.json"))
    assert [json.loads(r.read_text())["record"]["step"] for r in records] == [2]
    trainer, _, _ = asynchronous(LocalPool(make), folder=tmp_path)
    assert_same_run(trainer)


def test_a_worker_draws_the_prompts_of_its_request_after_a_round_trip_through_json():
    rollouts, drawn = make(epochs=1), []
    while (request := draw_request(rollouts)) is not None:
        drawn.append(request)
    assert len(drawn) == 12 and len({request["checksum"] for request in drawn}) == 12
    worker = Worker(lambda: make(epochs=1))
    worker.version = 0
    piece = worker.answer(json.loads(json.dumps(drawn[-1])))
    assert source_module.checksum(piece.batch) == drawn[-1]["checksum"]


def of_traces(prompts, completions, **_):
    return share_of_digits(prompts, [str(trace) for trace in completions])


def make_with_tools():
    rollouts = make()
    rollouts.reward = RewardSet(of_traces)
    tools = [toy_tools.TWICE]
    rollouts.dialogue = ToolUse(
        toy_tools.Chatty(), tools, turns=2, max_result_tokens=40
    )
    return rollouts


def make_with_environment():
    """Its conversations open with turns of its own, of the place in the order."""
    rollouts, (rows, tokenizer) = make(), rows_and_tokenizer()
    use = EnvironmentUse(toy_environments.Echo, turns=2, max_reply_tokens=40)
    rollouts.dialogue, rollouts.reward = use, RewardSet(environment_reward)
    rollouts.prompts = prompt_batches.prompts(
        rows, tokenizer, batch=2, buckets=(64,), seed=5, environment=use
    )
    return rollouts


@pytest.mark.parametrize("make", [make_with_tools, make_with_environment])
def test_answers_of_several_turns_are_those_of_the_synchronous_loop(make, monkeypatch):
    """Bit by bit, after a round trip through bytes, as between machines."""
    monkeypatch.setattr(chat, "eos_ids", toy_tools.often_ends)

    def sent(worker, count, piece):
        return pickle.loads(pickle.dumps(piece))

    alone = make()
    with FromWorkers(make(), LocalPool(make, fate=sent)) as there:
        for _ in range(2):
            batch, expected = next(there), next(alone)
            assert batch.keys() == expected.keys()
            for name, x in expected.items():
                np.testing.assert_array_equal(batch[name], x, err_msg=name)
            assert {k: there.metrics[k] for k in alone.metrics} == alone.metrics
            assert there.samples == alone.samples
    results = (batch["completion"] > 0) & (batch["loss_mask"] == 0)
    assert results.any(), "what tools gave is read, and not learned"
