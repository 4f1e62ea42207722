import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from tiny_models import FEW_SHAPES, cached_model, flat_batch
from toy_training import Fixed, Rows, Toy, assert_same_weights, squared_error, weights

from helpers.model import lora
from helpers.runtime.sharding import make_mesh, place_batch
from helpers.training import objectives
from helpers.training.optimizers import Optimizer, adamw, constant
from helpers.training.state import NothingToLearn, TrainingDiverged
from helpers.training.trainer import Trainer


def train(model, batches, steps, optimizer=None, objective=squared_error, **settings):
    trainer = Trainer(model, objective, optimizer or adamw(1e-2), log=False, **settings)
    return trainer.fit(batches, steps)


def sgd(rate):
    """Plain gradient descent: what one update does can be read off the weights."""
    return Optimizer(optax.scale(-1.0), constant(rate))


def gradient_of(model, batch):
    graph, params = nnx.split(model)
    batch = {name: jnp.asarray(x) for name, x in batch.items() if name != "rows"}
    error = jax.jit(jax.grad(lambda p: squared_error(nnx.merge(graph, p), batch)[0]))
    gradient = error(params)
    leaves, _ = jax.tree_util.tree_flatten_with_path(gradient)
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}


def test_one_step_of_gradient_descent_moves_the_weights_by_rate_times_gradient():
    model, batch = Toy(), next(Rows())
    before, gradient = weights(model), gradient_of(Toy(), batch)
    table = train(model, Fixed(batch), 1, sgd(0.5))
    for name, x in weights(model).items():
        np.testing.assert_allclose(x, before[name] - 0.5 * gradient[name], atol=1e-6)
    norm = math.sqrt(sum((g**2).sum() for g in gradient.values()))
    assert table[0]["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert table[0]["tokens"] == table[0]["weight"] == batch["loss_mask"].sum()


def test_minibatches_are_updates_one_after_the_other_at_the_same_rate():
    batch = next(Rows())
    together, in_turn = Toy(), Toy()
    train(together, Fixed(batch), 1, adamw(0.1, steps=3, warmup=2), minibatches=4)
    quarters = [{name: x[i : i + 2] for name, x in batch.items()} for i in (0, 2, 4, 6)]
    rate = adamw(0.1, steps=3, warmup=2).learning_rate(0)
    source = Fixed(None)
    trainer = Trainer(in_turn, squared_error, adamw(rate), log=False)
    for number, source.batch in enumerate(quarters):
        trainer.fit(source, number + 1)
    # Two programs, so the last digits of float32 may differ; weights are below 2.
    assert_same_weights(together, in_turn, rtol=1e-6, atol=1e-6)


def test_a_batch_whose_mask_is_empty_changes_nothing_and_stays_finite():
    model, batch = Toy(), next(Rows())
    batch["loss_mask"] = np.zeros_like(batch["loss_mask"])
    with pytest.warns(UserWarning, match="No token counted"):
        table = train(model, Fixed(batch), 1, sgd(1.0), accumulate=2)
    assert table[0]["loss"] == table[0]["grad_norm"] == 0
    assert_same_weights(model, Toy())


@pytest.mark.parametrize("wrt", [None, lora.Adapter])
def test_only_the_adapters_of_a_model_that_has_any_are_trained(wrt, tmp_path):
    def model_with_adapter():
        model = Toy()
        model.adapter = lora.Adapter(jnp.zeros((8,)))
        return model

    def objective(model, batch):
        error = (model(batch["tokens"]) + model.adapter[...]).sum(-1) - batch["target"]
        return jnp.square(error).mean(), {"weight": 1.0}

    model = model_with_adapter()
    settings = {"objective": objective, "folder": tmp_path, "wrt": wrt}
    train(model, Rows(), 3, **settings)
    before, after = weights(model_with_adapter()), weights(model)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert len(changed) == 1 and "adapter" in changed.pop()
    record = json.loads(next(tmp_path.glob("*/*/checkpoint.json")).read_text())[
        "record"
    ]
    assert not any("embed" in name for name in record["run"])  # nor are they saved
    resumed = model_with_adapter()
    train(resumed, Rows(), 3, **settings)
    assert_same_weights(model, resumed)


@pytest.mark.parametrize("kind", ["int8", "nf4 double"])
def test_an_adapted_model_trains_its_adapters_and_no_bit_of_its_base(kind):
    base = lora.quantize(cached_model("qwen2", **FEW_SHAPES), kind)
    model = lora.add(base, 2, targets=("q", "down"))
    before = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(base)))
    texts = np.random.default_rng(0).integers(2, 19, (4, 6)).tolist()
    batch = jax.tree.map(np.asarray, flat_batch(texts))
    train(model, Fixed(batch), 3, objective=objectives.sft())
    assert np.abs(model.layers.q_b[...]).max() > 1e-3
    after = nnx.to_pure_dict(nnx.state(lora.remove(model)))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize("where", ["loss", "grad_norm"])
def test_a_number_that_is_not_finite_stops_before_it_reaches_the_weights(
    where, tmp_path
):
    class Poisoned(Rows):
        def __next__(self):
            batch = super().__next__()
            if self.count == 3:
                batch["target"][0, 0] = np.nan if where == "loss" else np.inf
            return batch

    def objective(model, batch):
        if where == "loss":
            return squared_error(model, batch)
        # sqrt has an infinite slope at 0, while its value stays finite.
        poison = jnp.where(jnp.isinf(batch["target"]).any(), 0.0, 1.0)
        scale = jnp.sqrt(poison * jnp.square(model.embed[...]).sum())
        return scale, {"weight": 1.0}

    model, good = Toy(), Toy()
    with pytest.raises(TrainingDiverged, match=f"Step 3: {where} is .*00000002") as e:
        train(model, Poisoned(), 3, objective=objective, folder=tmp_path, save_every=2)
    assert "learning rate" in str(e.value)
    train(good, Rows(), 2, objective=objective)
    assert_same_weights(model, good)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


def test_weights_that_an_update_has_blown_up_are_not_saved(tmp_path):
    """Loss and gradient are fine, and so is the rate; their product is not."""

    def too_large(step):
        return 1e-9 if step < 2 else 3e38

    sgd = Optimizer(optax.scale(-1e6), too_large)
    with pytest.raises(TrainingDiverged, match="After step 3 .*embed.*00000002"):
        train(Toy(), Rows(), 3, optimizer=sgd, folder=tmp_path, save_every=1)
    again, good = Toy(), Toy()
    train(again, Rows(), 2, optimizer=sgd, folder=tmp_path)
    train(good, Rows(), 2, optimizer=sgd)
    assert_same_weights(again, good)


class Empty(Rows):
    """Rows of which some batches have an empty loss mask."""

    def __init__(self, empty):
        super().__init__()
        self.empty = empty

    def __next__(self):
        batch = super().__next__()
        if self.count in self.empty:
            batch["loss_mask"] = np.zeros_like(batch["loss_mask"])
        return batch


def per_answer(model, batch):
    """A mean by the room there is: its weight is not 0 where its mask is empty."""
    loss, metrics = squared_error(model, batch)
    return loss, metrics | {"weight": float(batch["loss_mask"].size)}


@pytest.mark.parametrize("objective", [squared_error, per_answer])
def test_batches_without_anything_to_learn_end_the_run_and_say_why(objective, tmp_path):
    settings = {"objective": objective, "folder": tmp_path, "save_every": 2}
    for _ in "started", "resumed":
        with pytest.raises(NothingToLearn, match="5 batches.*mask_truncated"):
            train(Toy(), Empty({1, 2, 5, 6, 7, 8, 9}), 12, **settings)
    assert len(train(Toy(), Empty({1, 2, 3, 4, 6}), 6, objective=objective))


def test_a_batch_that_does_not_divide_names_both_numbers():
    mesh = make_mesh()
    with pytest.raises(ValueError, match="6 rows.*minibatches=4.*multiple of 4"):
        place_batch({"tokens": np.zeros((6, 3))}, mesh, minibatches=4)
    with pytest.raises(ValueError, match="same leading axis.*'a': 6.*'b': 5"):
        place_batch({"a": np.zeros((6, 3)), "b": np.zeros(5)}, mesh)


def test_the_table_the_files_and_tensorboard_hold_the_same_numbers(tmp_path):
    table = train(Toy(), Rows(), 4, adamw(0.1, steps=4), folder=tmp_path)
    assert [row["step"] for row in table] == [1, 2, 3, 4]
    for row in table:
        names = "loss grad_norm learning_rate tokens seconds tokens_per_second error"
        assert row.keys() >= set(names.split())
        assert row["reward"] == row["step"] / 100
        assert row["seconds"] > 0 and row["cpu_seconds"] > 0
    totals = np.cumsum([row["tokens"] for row in table])
    assert [row["tokens_total"] for row in table] == list(totals)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == table
    samples = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["prompt"] for line in samples] == [
        f"row {step}" for step in (1, 2, 3, 4)
    ]
    assert json.loads(samples[2])["step"] == 3
    events = read_events(next(tmp_path.glob("events*")))
    for row in table:
        assert events[row["step"]] == pytest.approx(row, rel=1e-6)


def read_events(path):
    """TensorBoard's records: length, its checksum, an Event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, events = path.read_bytes(), {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
        values = {value.tag: value.simple_value for value in event.summary.value}
        if values:
            events[event.step] = values
    return events
