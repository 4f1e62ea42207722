"""Weights from one model to another, bit by bit, and none to a stranger."""

import numpy as np
import pytest
import toy_training
from tiny_models import model as make

from helpers.model import lora
from helpers.runtime import run_identity
from helpers.scale import published


def test_the_other_model_computes_the_same_afterwards():
    one, two = make(layers=2, seed=0), make(layers=2, seed=1)
    arrays = published.read(one)
    published.write(two, arrays)
    toy_training.assert_same_weights(one, two)
    assert all(type(x) is np.ndarray for x in arrays.values())


def test_of_a_model_with_adapters_these_alone_travel():
    one, two = lora.add(make(layers=1), 2, seed=1), lora.add(make(layers=1), 2, seed=2)
    arrays = published.read(one)
    whole = sum(x.nbytes for x in published.read(make(layers=1)).values())
    assert sum(x.nbytes for x in arrays.values()) < whole
    published.write(two, arrays)
    for name, x in published.read(two).items():
        np.testing.assert_array_equal(x, arrays[name])


def adapted(base=0, stored=None, adapters=1):
    model = make(layers=1, seed=base)
    return lora.add(lora.quantize(model, stored) if stored else model, 2, seed=adapters)


@pytest.mark.parametrize("stored", [None, "nf4"])
def test_adapters_go_to_the_same_base_alone(stored):
    arrays = published.read(adapted(0, stored))
    published.write(adapted(0, stored, adapters=2), arrays)
    other = None if stored else "nf4"
    for worker in (adapted(1, stored), adapted(0, other)):
        before = published.read(worker)
        with pytest.raises(ValueError, match="another model's: checksum of .*the same"):
            published.write(worker, arrays)
        for name, x in published.read(worker).items():
            np.testing.assert_array_equal(x, before[name])


def test_a_base_is_looked_at_once(monkeypatch):
    model, looked = adapted(), []
    first = published.read(model)
    monkeypatch.setattr(run_identity, "whole", looked.append)
    published.read(model)
    assert len(first) > 4 and not looked


def test_what_was_read_stays_as_it_was_when_the_model_moves():
    one = make(layers=1)
    arrays = published.read(one)
    before = {name: x.copy() for name, x in arrays.items()}
    published.write(one, {name: x + 1 for name, x in arrays.items()})
    for name, x in before.items():
        np.testing.assert_array_equal(arrays[name], x)


def test_another_architecture_dtype_or_missing_array_is_refused_by_name():
    one, arrays = make(layers=1), published.read(make(layers=1))
    name = sorted(arrays)[0]
    for wrong in (
        published.read(make(layers=2)),
        arrays | {name: arrays[name].astype(np.float16)},
        {n: x for n, x in arrays.items() if n != name},
        arrays | {"another": arrays[name]},
    ):
        with pytest.raises(ValueError, match="another model's"):
            published.write(one, wrong)
