"""Between the judge and a student's process: values arrive, and nothing else does."""

import json
import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from helpers.app.assistant import BackendError, Event
from helpers.tools.calls import Call, Verdict
from scripts import grade_answers, grade_wire


def test_values_arrive_as_they_were():
    kept = []
    verdict = Verdict(calls=(Call("look", {"grams": 1.5}),), text="a\ud800")
    for value in (
        [None, True, 3, -(10**5000), 0.1, math.inf, "ä", (1, {2}), Fraction(1, 3)],
        {1: [2], (3, 4): {}, "list": ["int", "0x1"]},
        np.float32(0.1),
        np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
        jnp.ones((2, 0)),
        verdict,
        Event("call", call=verdict.calls[0]),
    ):
        sent = json.loads(json.dumps(grade_wire.encode(value, kept.append)))
        back = grade_wire.decode(sent, kept.index)
        assert type(back) is type(value)
        if hasattr(value, "dtype"):
            assert back.dtype == value.dtype and np.array_equal(back, value)
        else:
            assert back == value
    sent = grade_wire.encode((i for i in range(3)), kept.append)
    assert list(grade_wire.decode(sent, kept.index)) == [0, 1, 2] and not kept


@pytest.mark.parametrize(
    "sent",
    [
        ["int"],
        ["int", "x"],
        ["kind", "Popen", "ls"],
        ["kind", []],
        ["fraction", "0x1", "0x0"],
        ["array", "O", [1], "AAAA"],
        ["array", "<f8", [9**9], "AAAA"],
        ["object", 99],
        ["dict", 1],
        ["dict", ["list"], 1],
        ["exec", "1"],
        [],
        {"a": 1},
        7,
    ],
)
def test_what_is_no_value_is_refused(sent):
    with pytest.raises(grade_wire.Broken):
        grade_wire.decode(sent, [].__getitem__)


def test_an_error_of_the_course_can_be_caught_on_the_other_side():
    error = grade_wire._exception(["BackendError", "Start the server."])
    assert type(error) is BackendError and str(error) == "Start the server."
    other = grade_wire._exception(["SomeError", "x"])
    assert type(other).__name__ == "SomeError" and not isinstance(other, BackendError)


def test_changing_an_argument_is_seen_by_the_check(tmp_path):
    array, entries, names = np.zeros(2), [1], {"a": 1}
    grade_answers._leave((array, entries, names), (np.ones(2), [1, 2], {"b": 2}))
    assert array.tolist() == [1, 1] and entries == [1, 2] and names == {"b": 2}
