"""Wherever a run is stopped, and whatever it trains, it ends as if it had not been.

A stop is an exception where a batch is drawn; `kill_run.py` sends real SIGKILLs. The
unstopped run, the stopped one and its continuation share one compiled program.
"""

import contextlib
import functools
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tables import without_times
from tiny_models import VOCAB
from tiny_models import model as make

from helpers.batches.prompt_batches import packed_rows
from helpers.model import lora, quantized
from helpers.runtime.platform import jit
from helpers.runtime.sharding import make_mesh
from helpers.training.objectives import sft
from helpers.training.optimizers import adamw, muon
from helpers.training.trainer import Trainer

STEPS, OBJECTIVE, PROGRAMS = 6, sft(), {}

# Each kind is a program to compile. What adapters stand beside is fixed, in any bits.
NAMES = "base", "dtype", "optimizer", "minibatches", "accumulate"
KINDS = [("trained", "bfloat16", "muon", 2, 1), ("int8", "float32", "adamw", 1, 2)]


class Stopped(Exception):
    """What stands for a kill."""


class Stopping:
    """A batch source that stops before batch number `stop`."""

    def __init__(self, source, stop):
        self.source, self.left = source, stop

    def __getattr__(self, name):
        return getattr(self.source, name)

    def __next__(self):
        if self.left == 0:
            raise Stopped
        self.left -= 1
        return next(self.source)


def batches():
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 9, 30)
    examples = [(rng.integers(1, VOCAB, n), rng.integers(0, 2, n)) for n in sizes]
    return packed_rows(examples, batch=4, length=8, seed=1)


def policy(base, dtype):
    model = make("llama", layers=1, dtype=jnp.dtype(dtype))
    model = lora.quantize(model, base) if base in quantized.KINDS else model
    return model if base == "trained" else lora.add(model, 2, targets=("q", "down"))


def train(kind, folder, stop=-1, save_every=0):
    """All arrays of the trainer after its last step, and the table."""

    def once(function, **settings):
        key = tuple(kind.values())
        if key not in PROGRAMS:
            PROGRAMS[key] = jit(function, **settings)
        return PROGRAMS[key]

    optimizer = {"adamw": adamw, "muon": muon}[kind["optimizer"]]
    trainer = Trainer(
        policy(kind["base"], kind["dtype"]),
        OBJECTIVE,
        optimizer(1e-2, steps=STEPS),
        folder=folder,
        save_every=save_every,
        minibatches=kind["minibatches"],
        accumulate=kind["accumulate"],
        mesh=make_mesh(jax.devices()[:1]),
        log=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("helpers.training.state.jit", once)
        table = trainer.fit(Stopping(batches(), stop), STEPS)
    arrays = {name: np.asarray(x) for name, x in trainer.named_arrays().items()}
    return arrays, without_times(table)


@functools.cache
def unstopped(kind):
    """What a run of this kind ends with that nothing stops."""
    return train(dict(zip(NAMES, kind, strict=True)), None)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(deadline=None, max_examples=4)
@given(st.lists(st.integers(0, STEPS), min_size=1, max_size=3), st.integers(0, 3))
def test_a_run_that_is_stopped_anywhere_ends_with_the_same_numbers(
    kind, stops, save_every
):
    straight, expected = unstopped(kind)
    kind = dict(zip(NAMES, kind, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        for stop in stops:
            with contextlib.suppress(Stopped):
                train(kind, folder, stop, save_every)
        arrays, table = train(kind, folder, save_every=save_every)
    assert table == expected and len(table) == STEPS
    assert arrays.keys() == straight.keys()
    for name, x in straight.items():
        assert arrays[name].dtype == x.dtype
        np.testing.assert_array_equal(arrays[name], x, err_msg=name)
    moved = [np.any(x != 0) for name, x in straight.items() if "_b'" in name]
    assert all(moved)  # adapters begin at zero
