"""What must survive: kills, damaged checkpoints, full disks, two runs in one folder."""

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import simulated_devices
from flax import nnx
from run_tables import read_table
from small_disk import disk_of
from toy_training import Rows, Toy, assert_same_weights, squared_error

from helpers.training.checkpoints import CheckpointError
from helpers.training.logging import MetricsLog
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

HERE = Path(__file__).parents[1]


def train(folder, steps, batches=None, model=None):
    model, optimizer = model or Toy(), adamw(3e-2, steps=12, warmup=2)
    settings = {"folder": folder, "save_every": 4, "log": False}
    trainer = Trainer(model, squared_error, optimizer, **settings)
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
@pytest.mark.parametrize("lesson, kills", [("toy", 6), ("grpo", 4)])
def test_killed_training_ends_with_the_same_numbers(lesson, kills, tmp_path):
    """Bit by bit: parameters, optimizer, metrics and samples, after SIGKILLs."""
    environment = os.environ | {"PYTHONPATH": simulated_devices.PATHS}
    output = {}
    for name, count in ("whole", "0"), ("killed", str(kills)):
        command = [sys.executable, HERE / "kill_run.py", lesson, tmp_path / name, count]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        output[name] = done.stdout
    assert output["killed"].count("killed after") >= kills - 1, output["killed"]
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


def test_a_damaged_newest_checkpoint_costs_its_steps_and_nothing_else(whole, tmp_path):
    train(tmp_path, 9)
    (newest,) = (tmp_path / "checkpoints").glob("*9")
    victim = max(newest.rglob("d/*"), key=os.path.getsize)
    os.truncate(victim, 10)
    with pytest.warns(UserWarning, match=f"{victim.name}.*Going back"):
        model, _ = train(tmp_path, 12)
    assert_ends_like(whole, tmp_path, model)


def model_with_a_table():
    """A model whose checkpoint is larger than its logs."""
    model = Toy()
    noise = np.random.default_rng(0).normal(size=(200, 200))
    model.table = nnx.Param(jnp.asarray(noise, jnp.float32))
    return model


def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(tmp_path):
    train(tmp_path / "full", 5, model=model_with_a_table())
    with disk_of(60_000), pytest.raises(CheckpointError, match="step 8 .*00000005"):
        train(tmp_path / "full", 12, model=model_with_a_table())
    model, _ = train(tmp_path / "full", 12, model=model_with_a_table())
    straight, _ = train(tmp_path / "whole", 12, model=model_with_a_table())
    assert_same_weights(model, straight)
    assert read_table(tmp_path / "full") == read_table(tmp_path / "whole")


def test_a_log_that_cannot_be_written_says_what_to_do(tmp_path):
    log = MetricsLog(tmp_path, {}, 0)
    with disk_of(2_000):
        with pytest.raises(OSError, match="log of step.*Free some space.*checkpoint"):
            for step in range(100):
                log.write({"step": step, "loss": 1.0}, [])


def test_an_interrupted_update_is_not_continued(tmp_path, monkeypatch):
    """Its arrays were donated: the next fit says so, and from where it goes on."""
    settings = {"folder": tmp_path, "save_every": 2, "log": False}
    trainer, batches = Trainer(Toy(), squared_error, adamw(3e-2), **settings), Rows()
    trainer.fit(batches, 2)
    update = trainer.state.updated

    def interrupted(*arguments):
        update(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer.state, "updated", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(batches, 4)
    with pytest.raises(ValueError, match="in the middle of an update.*00000002"):
        trainer.fit(batches, 4)
