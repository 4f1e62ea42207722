"""What must survive: kills, damaged checkpoints, full disks, two runs in one folder."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import simulated_devices
from flax import nnx
from run_tables import read_table
from tiny_models import model as tiny_model
from toy_training import Rows, Toy, assert_same_weights, squared_error

from helpers.model.families import items
from helpers.runtime import distributed
from helpers.training.checkpoints import CheckpointError
from helpers.training.logging import MetricsLog, is_timing
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

HERE = Path(__file__).parents[1]


def train(
    folder,
    steps,
    batches=None,
    model=None,
    objective=squared_error,
    peak=3e-2,
    **settings,
):
    model = model or Toy()
    optimizer = adamw(peak, steps=12, warmup=2)
    trainer = Trainer(
        model,
        objective,
        optimizer,
        folder=folder,
        save_every=4,
        log=False,
        **settings,
    )
    return model, trainer.fit(batches or Rows(), steps)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing happened to: its folder and its model."""
    folder = tmp_path_factory.mktemp("whole")
    model, _ = train(folder, 12)
    return folder, model


def assert_ends_like(whole, folder, model):
    assert_same_weights(model, whole[1])
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert read_table(folder, name) == read_table(whole[0], name)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["sft", "grpo", "distillation"])
def test_killed_training_ends_with_the_same_numbers(lesson, tmp_path):
    """Bit by bit: parameters, optimizer, metrics and samples, after six SIGKILLs."""
    environment = os.environ | {"PYTHONPATH": simulated_devices.PATHS}
    output = {}
    for name, arguments in (("whole", []), ("killed", ["--kills", "6"])):
        command = [sys.executable, HERE / "kill_run.py", lesson, tmp_path / name]
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        output[name] = done.stdout
    assert output["killed"].count("killed after") >= 5, output["killed"]
    whole = np.load(tmp_path / "whole" / "final.npz")
    killed = np.load(tmp_path / "killed" / "final.npz")
    assert set(whole.files) == set(killed.files)
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], killed[name], err_msg=name)
    table = read_table(tmp_path / "killed")
    assert [row["step"] for row in table] == list(range(1, len(table) + 1))
    for name in ("metrics.jsonl", "samples.jsonl"):
        expected = read_table(tmp_path / "whole", name)
        assert read_table(tmp_path / "killed", name) == expected


class Sampled(Rows):
    """Rows whose drawing stops once where a batch is taken but not yet given out."""

    def __next__(self):
        batch = super().__next__()
        if self.count == 3 and self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return batch

    interrupts = 1


def without_times(table):
    return [{k: x for k, x in row.items() if not is_timing(k)} for row in table]


def test_ctrl_c_while_a_batch_is_sampled_does_not_skip_that_batch(whole, tmp_path):
    model, optimizer = Toy(), adamw(3e-2, steps=12, warmup=2)
    settings = {"folder": tmp_path, "save_every": 4, "log": False}
    trainer, batches = Trainer(model, squared_error, optimizer, **settings), Sampled()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(batches, 12)
    trainer.fit(batches, 12)
    assert_ends_like(whole, tmp_path, model)


def test_ctrl_c_while_the_update_is_compiled_does_not_skip_its_batch(tmp_path):
    compiling = iter([KeyboardInterrupt])

    def objective(model, batch):
        for error in compiling:
            raise error
        return squared_error(model, batch)

    model, straight, batches = Toy(), Toy(), Rows()
    trainer = Trainer(model, objective, adamw(3e-2), folder=tmp_path, log=False)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(batches, 6)
    trainer.fit(batches, 6)
    Trainer(straight, squared_error, adamw(3e-2), log=False).fit(Rows(), 6)
    assert_same_weights(model, straight)


def test_an_update_that_was_not_noted_is_not_gone_on_from(whole, tmp_path, monkeypatch):
    """Ctrl-C between the update and the count of steps: one would be made too many."""
    steps, plain = iter(range(99)), nnx.update

    def update(model, *states):
        if next(steps) == 6:  # 0: all weights are put in their place
            raise KeyboardInterrupt
        plain(model, *states)

    with monkeypatch.context() as patch:
        patch.setattr("helpers.training.trainer.nnx.update", update)
        optimizer = adamw(3e-2, steps=12, warmup=2)
        settings = {"folder": tmp_path, "save_every": 4, "log": False}
        trainer = Trainer(Toy(), squared_error, optimizer, **settings)
        batches = Rows()
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(batches, 12)
    with pytest.raises(ValueError, match="in the middle of an update.*00000004"):
        trainer.fit(batches, 12)
    model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


def test_ctrl_c_while_a_row_is_logged_leaves_it_there_once(tmp_path, monkeypatch):
    """Whether it came before, between or after the files and the table."""
    write, moments = MetricsLog.write, iter(["in", "after"])
    dumps = json.dumps

    def late(log, row, samples):
        moment = next(moments, None) if row["step"] in (2, 4) else None
        if moment == "in":
            monkeypatch.setattr("helpers.training.logging.json.dumps", interrupt)
        write(log, row, samples)
        if moment == "after":
            raise KeyboardInterrupt

    def interrupt(line):
        if "prompt" in line:  # a sample: the row is in its file already
            monkeypatch.setattr("helpers.training.logging.json.dumps", dumps)
            raise KeyboardInterrupt
        return dumps(line)

    monkeypatch.setattr(MetricsLog, "write", late)
    trainer = Trainer(Toy(), squared_error, adamw(3e-2), folder=tmp_path, log=False)
    batches = Rows()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(batches, 6)
    table = trainer.fit(batches, 6)
    assert [row["step"] for row in table] == [1, 2, 3, 4, 5, 6]
    assert read_table(tmp_path) == without_times(table)
    assert len(read_table(tmp_path, "samples.jsonl")) == 6


def test_a_model_that_a_lost_run_trained_is_not_taken_for_a_new_one(tmp_path):
    model = Toy()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 12, Sampled(), model)
    with pytest.warns(UserWarning, match="other weights.*load it again"):
        train(tmp_path, 2, model=model)


def test_a_run_that_was_lost_before_its_first_checkpoint_starts_again(whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 12, Sampled())
    model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


@pytest.mark.parametrize("stop", [1, 4, 6, 11])
def test_stopping_anywhere_and_going_on_gives_the_same_numbers(whole, tmp_path, stop):
    class Broken(Rows):
        def __next__(self):
            if self.count == stop:
                raise RuntimeError("the reward function failed")
            return super().__next__()

    with pytest.raises(RuntimeError, match="the reward function failed"):
        train(tmp_path, 12, Broken())
    model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


def test_half_a_line_that_a_kill_left_in_the_log_is_cut_off(whole, tmp_path):
    train(tmp_path, 5)
    for name in ("metrics.jsonl", "samples.jsonl"):
        with open(tmp_path / name, "a") as file:
            file.write('{"step": 6, "loss": 0.1}\n{"step": 7, "lo')
    model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


def test_a_damaged_newest_checkpoint_costs_its_steps_and_nothing_else(whole, tmp_path):
    train(tmp_path, 9)
    (newest,) = (tmp_path / "checkpoints").glob("*9")
    victim = max(newest.rglob("d/*"), key=os.path.getsize)
    os.truncate(victim, 10)
    with pytest.warns(UserWarning, match=f"{victim.name}.*Going back"):
        model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


def test_no_good_checkpoint_is_an_error_not_a_start_from_scratch(tmp_path):
    train(tmp_path, 5)
    for record in tmp_path.glob("checkpoints/*/checkpoint.json"):
        record.unlink()
    before = read_table(tmp_path)
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="damaged"):
        train(tmp_path, 12)
    assert read_table(tmp_path) == before


class OnAFullDisk(Rows):
    """From batch `full_at` on, no file of this process may grow beyond a limit."""

    def __init__(self, full_at, limit):
        super().__init__()
        self.full_at, self.limit = full_at, limit
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __next__(self):
        if self.count == self.full_at:
            limits = (self.limit, self.before[1])
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return super().__next__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


def model_with_a_table():
    """A model whose checkpoint is larger than its logs."""
    model = Toy()
    noise = np.random.default_rng(0).normal(size=(200, 200))
    model.table = nnx.Param(jnp.asarray(noise, jnp.float32))
    return model


def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(tmp_path):
    with OnAFullDisk(full_at=6, limit=60_000) as batches:
        with pytest.raises(CheckpointError, match="step 8 .*00000004"):
            train(tmp_path / "full", 12, batches, model_with_a_table())
    model, _ = train(tmp_path / "full", 12, model=model_with_a_table())
    straight, _ = train(tmp_path / "whole", 12, model=model_with_a_table())
    assert_same_weights(model, straight)
    assert read_table(tmp_path / "full") == read_table(tmp_path / "whole")


def test_a_log_that_cannot_be_written_says_what_to_do(tmp_path):
    log = MetricsLog(tmp_path, {}, 0)
    with OnAFullDisk(full_at=0, limit=2_000) as disk:
        next(disk)
        with pytest.raises(OSError, match="log of step.*Free some space.*checkpoint"):
            for step in range(100):
                log.write({"step": step, "loss": 1.0}, [])


def test_metrics_that_only_some_processes_have_are_an_error_for_all(monkeypatch):
    """Left out in one and missed in another, they would stop only the other one."""
    for other, mean in (({"reward": 0.5}, 0.255), ({"calls": 1.0}, None)):
        monkeypatch.setattr(
            distributed, "gather", lambda own, other=other: [(other, own[1]), own]
        )
        if mean is None:
            with pytest.raises(ValueError, match="metrics of the processes"):
                distributed.next_of_all(Rows())
        else:
            assert distributed.next_of_all(Rows())[1] == {"reward": mean}


def test_batches_of_other_shapes_are_an_error_for_all_processes(monkeypatch):
    """Each would make a program of its own, and divide by its own count."""

    def gather(own):
        shapes = {name: (1, *shape[1:]) for name, shape in own[1].items()}
        return [own, (own[0], shapes)]

    monkeypatch.setattr(distributed, "gather", gather)
    with pytest.raises(ValueError, match="batches of other shapes.*share evenly"):
        distributed.next_of_all(Rows())


def test_an_update_that_was_begun_and_cut_off_is_not_gone_on_with(
    tmp_path, monkeypatch
):
    """Its arrays were given away: the next fit says so, and from where it goes on."""
    settings = {"folder": tmp_path, "save_every": 2, "log": False}
    trainer, batches = Trainer(Toy(), squared_error, adamw(3e-2), **settings), Rows()
    trainer.fit(batches, 2)
    update = trainer.state.updated

    def cut_off(*given):
        update(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer.state, "updated", cut_off)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(batches, 4)
    with pytest.raises(ValueError, match="in the middle of an update.*00000002"):
        trainer.fit(batches, 4)


def test_a_save_that_was_cut_off_behind_its_rename_is_made_again(tmp_path, monkeypatch):
    """Ctrl-C while older checkpoints are removed: the step is not noted as saved."""
    settings = {"folder": tmp_path, "save_every": 2, "log": False}
    trainer, batches = Trainer(Toy(), squared_error, adamw(3e-2), **settings), Rows()

    def cut_off(folders):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("helpers.training.checkpoints.remove", cut_off)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(batches, 2)
    trainer.fit(batches, 2)
    again, straight = Toy(), Toy()
    Trainer(again, squared_error, adamw(3e-2), **settings).fit(Rows(), 2)
    Trainer(straight, squared_error, adamw(3e-2), log=False).fit(Rows(), 2)
    assert_same_weights(again, straight)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    class StartsAnother(Rows):
        def __next__(self):
            with pytest.raises(CheckpointError, match="already training"):
                train(tmp_path, 3)
            return super().__next__()

    _, table = train(tmp_path, 1, StartsAnother())
    assert len(table) == 1


def test_a_folder_of_another_lesson_or_model_is_refused_untouched(tmp_path):
    train(tmp_path, 5)
    before = read_table(tmp_path)

    def other_objective(model, batch):
        return squared_error(model, batch)

    with pytest.raises(CheckpointError, match="objective was squared_error.*another"):
        train(tmp_path, 12, objective=other_objective)
    with pytest.raises(CheckpointError, match=r"table.*float32\(200, 200\)"):
        train(tmp_path, 12, model=model_with_a_table())
    with pytest.raises(CheckpointError, match="minibatches was 1, here it is 2"):
        train(tmp_path, 12, minibatches=2)
    with pytest.raises(
        CheckpointError, match="learning rate: peak was 0.03, here it is 0.01"
    ):
        train(tmp_path, 12, peak=1e-2)
    assert read_table(tmp_path) == before


@pytest.mark.parametrize("name", ["tokens", "prompt", "completion"])
@pytest.mark.parametrize("strange", [-1, 19])
def test_tokens_of_another_tokenizer_are_refused_before_an_update(name, strange):
    """XLA would read id 19 of 19 as 18."""
    model = tiny_model("qwen3")
    before = {k: np.asarray(x) for k, x in items(nnx.state(model))}

    def objective(model, batch):
        return model.embed[...][batch[name]].sum(), {"weight": 1.0}

    class Source(Rows):
        ids = np.array([[0, 18], [3, strange]], np.int32)

        def __next__(self):
            return {name: self.ids}

    trainer = Trainer(model, objective, adamw(1e-2), log=False)
    said = f"token {strange} in '{name}'.*vocabulary has 19.*tokenizer from the model"
    with pytest.raises(ValueError, match=said):
        trainer.fit(Source(), 1)
    for path, x in items(nnx.state(model)):
        np.testing.assert_array_equal(x, before[path])
    Source.ids = np.array([[0, 18]], np.int32)
    assert len(trainer.fit(Source(), 1)) == 1
