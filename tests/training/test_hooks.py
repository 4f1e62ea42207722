"""What joins a run from outside: evaluation, callbacks, loggers."""

import json

import numpy as np
import pytest
from run_tables import without_times
from toy_training import Rows, Toy, assert_same_weights, squared_error, weights

from helpers.training.logging import Callback
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

STEPS = 7


def trainer(model=None, **settings):
    model = model or Toy()
    return Trainer(model, squared_error, adamw(1e-2), log=False, **settings)


def largest(model):
    return {"largest": max(np.abs(x).max() for x in weights(model).values())}


def after(step):
    """What `largest` says of the model after so many steps."""
    model = Toy()
    trainer(model).fit(Rows(), step)
    return float(largest(model)["largest"])


def test_evaluation_joins_the_row_of_its_step_and_sees_that_steps_model():
    table = trainer(evaluate=largest, evaluate_every=3).fit(Rows(), STEPS)
    evaluated = {
        row["step"]: row["eval/largest"] for row in table if "eval/largest" in row
    }
    assert evaluated == {3: after(3), 6: after(6)}
    plain = trainer().fit(Rows(), STEPS)
    assert [
        {k: x for k, x in row.items() if k != "eval/largest"}
        for row in without_times(table)
    ] == without_times(plain)


def test_a_resumed_run_evaluates_again_only_what_was_lost(tmp_path):
    settings = {"evaluate": largest, "evaluate_every": 2, "save_every": 3}
    expected = trainer(**settings).fit(Rows(), STEPS)

    def fails(model):
        fails.calls += 1
        if fails.calls == 3:
            raise RuntimeError("the test set is gone")
        return largest(model)

    fails.calls = 0
    first = trainer(folder=tmp_path, **settings | {"evaluate": fails})
    with pytest.raises(RuntimeError, match="the test set is gone"):
        first.fit(Rows(), STEPS)
    table = trainer(folder=tmp_path, **settings).fit(Rows(), STEPS)
    assert without_times(table) == without_times(expected)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == table


class Counting(Callback):
    """Notes every call, and the model at that time."""

    def __init__(self):
        self.steps = {}

    def on_step(self, trainer, row):
        lines = (trainer.checkpoints.run / "metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[-1]) == row  # in the file before the call
        self.steps[row["step"]] = float(largest(trainer.model)["largest"])


def test_callbacks_are_called_at_every_step(tmp_path):
    calls = Counting()
    trainer(callbacks=[calls], folder=tmp_path, save_every=2).fit(Rows(), STEPS)
    assert calls.steps[2] == after(2) and list(calls.steps) == [*range(1, STEPS + 1)]
    kept = sorted(x.name for x in (tmp_path / "checkpoints").glob("0*"))
    assert kept == ["00000006", "00000007"], "the newest two"


def test_what_a_callback_raises_passes_through_and_the_run_goes_on(tmp_path):
    class Stops(Callback):
        def on_step(self, trainer, row):
            raise InterruptedError("no more")

    with pytest.raises(InterruptedError, match="no more"):
        trainer(callbacks=[Stops()], folder=tmp_path, save_every=2).fit(Rows(), STEPS)
    model, straight = Toy(), Toy()
    table = trainer(model, folder=tmp_path, save_every=2).fit(Rows(), STEPS)
    expected = trainer(straight).fit(Rows(), STEPS)
    assert without_times(table) == without_times(expected)
    assert_same_weights(model, straight)


class Recorder:
    """A logger that notes every call."""

    def __init__(self):
        self.starts, self.rows, self.samples = [], [], []

    def start(self, step):
        self.starts.append(step)

    def write(self, row, samples):
        self.rows.append(row)
        self.samples += samples


def test_a_logger_gets_every_row_and_where_a_run_goes_on(tmp_path):
    first, again = Recorder(), Recorder()
    table = trainer(loggers=[first], folder=tmp_path).fit(Rows(), 4)
    assert first.starts == [0] and first.rows == table
    assert [sample["prompt"] for sample in first.samples][:2] == ["row 1", "row 2"]
    table = trainer(loggers=[again], folder=tmp_path).fit(Rows(), STEPS)
    assert again.starts == [4] and again.rows == table[4:]
