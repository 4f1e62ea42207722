"""Training on 8 simulated devices, on 4 and on 1 must agree.

Run by `sharded.py trainer`.
"""

import tempfile
from itertools import filterfalse

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from run_tables import is_timing
from toy_training import Rows, Toy, assert_same_weights, squared_error

from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.runtime.sharding import make_mesh, place, place_batch, using
from helpers.tpu import hlo
from helpers.training import objectives
from helpers.training.optimizers import adamw, muon
from helpers.training.trainer import Trainer

V, B, P, G, TP, TC = 24, 16, 16, 2, 6, 4
CONFIG = ModelConfig("gemma3_text", V, 16, 2, 2, 1, 8, 32, window=4, pattern=2)


class Packed(Rows):
    """Random packed rows, two examples in each."""

    def __next__(self):
        rng = np.random.default_rng((1, self.count))
        self.count += 1
        length = 8
        positions = np.arange(length) % 4
        return {
            "tokens": rng.integers(0, V, (B, length)).astype(np.int32),
            "positions": np.tile(positions, (B, 1)).astype(np.int32),
            "segment_ids": np.tile(1 + np.arange(length) // 4, (B, 1)).astype(np.int32),
            "loss_mask": (rng.random((B, length)) * (positions > 0) > 0.4) * 1.0,
        }


class Groups(Rows):
    """Random groups of answers of unequal length."""

    def __next__(self):
        rng = np.random.default_rng((2, self.count))
        self.count += 1
        lengths = rng.integers(1, TC + 1, (P, G, 1))
        return {
            "prompt": rng.integers(0, V, (P, TP)).astype(np.int32),
            "prompt_mask": (np.arange(TP) < rng.integers(2, TP + 1, (P, 1))) * 1,
            "completion": rng.integers(0, V, (P, G, TC)).astype(np.int32),
            "loss_mask": (np.arange(TC) < lengths) * 1.0,
            "logprobs": -3 + 0.3 * rng.normal(size=(P, G, TC)).astype(np.float32),
            "advantages": rng.normal(size=(P, G)).astype(np.float32),
        }


def train(objective, batches, optimizer, devices, steps=3, **settings):
    model = Transformer(CONFIG, nnx.Rngs(0))
    mesh = make_mesh(jax.devices()[:devices])
    trainer = Trainer(model, objective, optimizer, mesh=mesh, log=False, **settings)
    table = trainer.fit(batches, steps)
    return trainer, model, table


def check_muon():
    """An optimizer that needs whole matrices, on accumulated pieces."""
    lesson = objectives.sft(), Packed(), muon(1e-2)
    trainer, sharded, table = train(*lesson, 8, accumulate=2)
    lesson = objectives.sft(), Packed(), muon(1e-2)
    _, alone, expected = train(*lesson, 1, accumulate=2)
    assert_same_weights(sharded, alone, rtol=1e-4, atol=2e-5)
    for row, other in zip(table, expected, strict=True):
        for name in filterfalse(is_timing, row):
            pair = row[name], other[name]
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5, err_msg=name)
    check_every_device_holds_its_share(trainer)


def check_every_device_holds_its_share(trainer):
    """All matrices and their moments are cut in 8, never along the layers."""
    for name, x in trainer.named_arrays().items():
        if x.ndim < 2:
            continue
        shares = [shard.data.shape for shard in x.addressable_shards]
        assert len(shares) == 8 and len(set(shares)) == 1, name
        assert np.prod(shares[0]) * 8 == x.size, (name, shares[0], x.shape)
        if "layers" in name:
            assert shares[0][0] == x.shape[0], f"{name} is cut along the layers"


def check_rows_stay_where_they_are():
    """Fully sharded: weights and gradients travel, activations do not.

    Bounds in sizes of all weights. If layers did not gather their own, XLA would gather
    3.0 and 5.7 of them here.
    """
    lessons = (objectives.sft, Packed, 2.5), (objectives.policy_gradient, Groups, 4.7)
    for objective, source, bound in lessons:
        trainer, _, _ = train(objective(), source(), adamw(1e-3), 8, steps=0)
        pieces = place_batch(next(source()), trainer.mesh)
        learner = trainer.state
        state = learner.params, learner.opt_state, learner.fixed, learner.teachers
        with using(learner.params):
            text = learner.update.plain.lower(*state, pieces, 0.1).compile().as_text()
        weights = 4 * sum(x.size for x in jax.tree.leaves(learner.params)) / 2**30
        for kind, (_, gib) in hlo.collectives(text).items():
            assert gib < bound * weights, (kind, gib / weights)


def check_the_model_spreads_rows():
    """Tokens that lie on every device: each computes its rows, and adds nothing up.

    Without the model's own constraint each computes five times as much here, and XLA
    adds up activations of all rows.
    """
    graph, state = nnx.split(Transformer(CONFIG, nnx.Rngs(0)))
    mesh = make_mesh()
    tokens = np.zeros((B, 1, 8), np.int32)
    inputs = place(state, mesh), tokens, tokens + np.arange(8, dtype=np.int32)
    forward = jax.jit(lambda state, *texts: nnx.merge(graph, state)(*texts)[0])
    with using(inputs[0]):
        program = forward.lower(*inputs).compile()
    assert "all-reduce" not in hlo.collectives(program.as_text())
    hidden = program(*inputs)
    rows = NamedSharding(mesh, PartitionSpec("data"))
    assert hidden.sharding.is_equivalent_to(rows, hidden.ndim), hidden.sharding


def check_folders_move_between_meshes():
    """A run of 8 devices goes on with 1 and with 4, from exactly where it was."""
    with tempfile.TemporaryDirectory() as folder:

        def run(devices, steps):
            model, mesh = Toy(), make_mesh(jax.devices()[:devices])
            trainer = Trainer(
                model, squared_error, adamw(1e-2), folder=folder, mesh=mesh, log=False
            )
            return model, trainer.fit(Rows(), steps)

        first, _ = run(8, 2)
        for devices in (1, 4):
            restored, _ = run(devices, 2)
            assert_same_weights(first, restored)
        continued, table = run(4, 5)
        assert [row["step"] for row in table] == [1, 2, 3, 4, 5]
        straight = Toy()
        one = make_mesh(jax.devices()[:1])
        Trainer(straight, squared_error, adamw(1e-2), mesh=one, log=False).fit(
            Rows(), 5
        )
        assert_same_weights(continued, straight, rtol=1e-4, atol=1e-6)
        assert not np.array_equal(first.embed[...], continued.embed[...])


def main():
    check_muon()
    check_rows_stay_where_they_are()
    check_the_model_spreads_rows()
    check_folders_move_between_meshes()
