"""Trains a toy as one of several processes, whose imports and programs are few.

python tests/distributed_toy.py killed PORT INDEX FOLDER  one of two; process 1 dies
    at step 5
python tests/distributed_toy.py four PORT INDEX FOLDER    one of four, which go on
    from a checkpoint that `distributed_run.py whole` left there
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from run_tables import without_times
from toy_training import VOCAB, Toy

from helpers.batches import packed_rows
from helpers.model.transformer import named_arrays
from helpers.runtime.distributed import is_first, join, on_first, whole
from helpers.runtime.sharding import make_mesh
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

STEPS, SAVE_EVERY, LAST_BEFORE_KILL = 6, 3, 4
SAME = {"loss", "tokens", "reward", "length", "tied_groups", "calls"}
ROWS, LONGEST = 32, 16


def begin(processes, port, index):
    """Joins the others: all have eight devices."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    join(f"localhost:{port}", processes, int(index))
    assert len(jax.devices()) == 8


def examples():
    """Each fills more than half a row, so that rows do not depend on shares."""
    rng = np.random.default_rng(0)
    lengths = LONGEST - np.arange(40) % (LONGEST // 2)
    return [
        (rng.integers(1, VOCAB, n).tolist(), rng.integers(0, 2, n).tolist())
        for n in lengths
    ]


def distance(model, batch, teacher):
    """Mean over the tokens under the mask of how far a toy is from a frozen one."""
    ours, theirs = (toy(batch["tokens"]).sum(axis=-1) for toy in (model, teacher))
    weight = batch["loss_mask"].sum()
    total = (jnp.square(ours - theirs) * batch["loss_mask"]).sum()
    return total / jnp.maximum(weight, 1), {"weight": weight}


def toy():
    """(model, objective, batches, settings of the trainer) of the lesson."""
    batches = packed_rows(
        examples(), batch=ROWS // jax.process_count(), length=LONGEST, seed=0
    )
    settings = {"frozen": [Toy(seed=1)], "accumulate": 2, "minibatches": 2}
    return Toy(), distance, batches, settings


class Dies:
    """A batch source that ends its process before a batch."""

    def __init__(self, source):
        self.source, self.left = source, LAST_BEFORE_KILL

    def __getattr__(self, name):
        return getattr(self.source, name)

    def __next__(self):
        if not self.left and jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return next(self.source)


def train(lesson, folder=None, devices=8, wrapper=lambda source: source):
    """The metrics of a lesson, as `toy` is one, without what the clock decides."""
    model, objective, batches, settings = lesson()
    trainer = Trainer(
        model,
        objective,
        adamw(3e-3, b1=0.5, b2=0.5),
        folder=folder,
        mesh=make_mesh(jax.devices()[:devices]),
        save_every=SAVE_EVERY,
        log=False,
        **settings,
    )
    table = trainer.fit(wrapper(batches), STEPS)
    if folder:
        state = named_arrays(nnx.state(model))
        arrays = {"/".join(map(str, path)): whole(x) for path, x in state}
        if is_first():
            np.savez(folder / "final.npz", **arrays)
    return without_times(table)


def close(table, expected, what):
    """Losses and what was sampled, to 1e-5; what depends on the packing is left out."""
    assert [row["step"] for row in table] == list(range(1, STEPS + 1)), what
    for row, other in zip(table, expected, strict=True):
        for key in row.keys() & SAME:
            np.testing.assert_allclose(
                row[key], other[key], rtol=1e-5, atol=1e-7, err_msg=f"{what} {key}"
            )


def read(path):
    return json.loads(path.read_text())


def goes_on(lesson, folder, name, expected, devices=8):
    """From where two processes were after step 3: the same losses, and weights."""
    moved = folder / f"{name}-in-{jax.process_count()}"
    on_first(lambda: copy_of_step_3(folder / name, moved))
    close(train(lesson, moved, devices), expected, moved.name)
    on_first(lambda: same_weights(moved, folder / name))


def copy_of_step_3(folder, moved):
    """A run as if it had been stopped in the middle."""
    shutil.copytree(folder, moved)
    shutil.rmtree(moved / "checkpoints" / f"{STEPS:08d}")
    (moved / "final.npz").unlink()


def same_weights(*folders):
    """Those that were saved there, to 1e-4."""
    one, other = (np.load(folder / "final.npz") for folder in folders)
    assert set(one.files) == set(other.files) and one.files
    for name in one.files:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    what, port, index, folder = sys.argv[1:]
    begin({"killed": 2, "four": 4}[what], port, index)
    folder = Path(folder)
    if what == "four":
        goes_on(toy, folder, "toy", read(folder / "toy-0.json"))
    else:
        train(toy, folder, wrapper=Dies)
    print("all the same", flush=True)
