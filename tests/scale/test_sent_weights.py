"""Weights from one model to another, bit by bit, and none to a stranger."""

import numpy as np
import pytest
import toy_training
from tiny_models import model as make

from helpers.model import lora
from helpers.scale.workers import read_weights, write_weights


def test_the_other_model_computes_the_same_afterwards():
    one, two = make(layers=2, seed=0), make(layers=2, seed=1)
    arrays = read_weights(one)
    write_weights(two, arrays)
    toy_training.assert_same_weights(one, two)
    assert all(type(x) is np.ndarray for x in arrays.values())


def test_of_a_model_with_adapters_these_alone_travel():
    one, two = lora.add(make(layers=1), 2, seed=1), lora.add(make(layers=1), 2, seed=2)
    arrays = read_weights(one)
    whole = sum(x.nbytes for x in read_weights(make(layers=1)).values())
    assert sum(x.nbytes for x in arrays.values()) < whole
    write_weights(two, arrays)
    for name, x in read_weights(two).items():
        np.testing.assert_array_equal(x, arrays[name])


def test_what_was_read_stays_as_it_was_when_the_model_moves():
    one = make(layers=1)
    arrays = read_weights(one)
    before = {name: x.copy() for name, x in arrays.items()}
    write_weights(one, {name: x + 1 for name, x in arrays.items()})
    for name, x in before.items():
        np.testing.assert_array_equal(arrays[name], x)


def test_another_architecture_dtype_or_missing_array_is_refused_by_name():
    one, arrays = make(layers=1), read_weights(make(layers=1))
    name = sorted(arrays)[0]
    for wrong in (
        read_weights(make(layers=2)),
        arrays | {name: arrays[name].astype(np.float16)},
        arrays | {"another": arrays[name]},
    ):
        with pytest.raises(ValueError, match="another model's"):
            write_weights(one, wrong)
