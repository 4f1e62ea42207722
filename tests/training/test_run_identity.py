"""Runs are told apart by what would change their numbers, and by nothing else."""

import functools
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from test_trainer import Rows, Toy, squared_error

from helpers.training.checkpoints import CheckpointError
from helpers.training.optimizers import adamw
from helpers.training.run_identity import describe, fingerprint
from helpers.training.trainer import Trainer


def test_objectives_are_told_apart_by_name_and_settings():
    def lesson(clip, loss):
        def objective(model, batch):
            return loss(clip)

        return objective

    assert re.fullmatch(r"squared_error#[0-9a-f]{8}\(\)", describe(squared_error))
    one = describe(lesson((0.2, 0.28), squared_error))
    assert "clip=[0.2, 0.28]" in one and "squared_error" in one
    assert describe(lesson(0.1, squared_error)) != one
    assert describe(lesson((0.2, 0.28), squared_error)) == one
    halves = [functools.partial(squared_error, beta=beta) for beta in (0.5, 0.1)]
    assert describe(lesson(0.1, halves[0])) != describe(lesson(0.1, halves[1]))


def define(source):
    """A function from text, as two processes or two notebook cells would have it."""
    space = {}
    exec(compile(source, f"<cell {len(source)}>", "exec"), space)
    return space["reward"]


def test_code_counts_and_comments_file_and_lines_do_not():
    one = define("def reward(a):\n    return a + 1")
    same = define("\n\n# moved\ndef reward(a):\n    # why\n    return a + 1")
    other = define("def reward(a):\n    return a + 2")
    inner = "def reward(a):\n    return sum(x * {} for x in a)"
    assert describe(one) == describe(same) != describe(other)
    assert describe(define(inner.format(2))) != describe(define(inner.format(3)))


def test_the_text_is_the_same_in_another_process():
    program = "from helpers import identity, lessons, rewards\n"
    program += "made = lessons.policy_gradient(clip=(0.1, 0.3)), rewards.correct\n"
    program += "print(identity.describe(made))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(texts) == 1 and "0x" not in texts.pop()


def test_a_fingerprint_changes_with_one_bit_and_not_with_the_place():
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    tree = {"a": numbers, "b": [np.int32(3)]}
    assert fingerprint(tree) == fingerprint(
        {"a": jnp.asarray(numbers), "b": [np.int32(3)]}
    )
    other = numbers.copy()
    other[2, 3] = np.nextafter(other[2, 3], np.float32(99))
    assert fingerprint(tree) != fingerprint({**tree, "a": other})


def train(folder, steps, model=None, **settings):
    optimizer = adamw(1e-2, **settings)
    trainer = Trainer(
        model or Toy(), squared_error, optimizer, folder=folder, log=False
    )
    return trainer.fit(Rows(), steps)


@pytest.mark.parametrize(
    "settings", [{"clip": 1e-9}, {"weight_decay": 5.0}, {"b2": 0.5}]
)
def test_another_optimizer_does_not_go_on_with_a_run(tmp_path, settings):
    train(tmp_path, 2)
    with pytest.raises(CheckpointError, match="optimizer.*another folder"):
        train(tmp_path, 4, **settings)
    assert len(train(tmp_path, 4)) == 4


def test_other_starting_weights_do_not_get_the_finished_run(tmp_path):
    model = Toy()
    train(tmp_path, 2, model)
    with pytest.raises(CheckpointError, match="starting weights.*load it again"):
        train(tmp_path, 2, model)  # trained meanwhile
    assert len(train(tmp_path, 2)) == 2
