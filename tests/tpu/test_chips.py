"""The table of chips: from readers that are handed in, since there is no TPU here."""

import sys
import time
import types

import jax
import pytest

from helpers.tpu import chips
from helpers.tpu.chips import Usage


def two_chips():
    return [Usage(0, 4.0, 16.0, 87.4), Usage(1, 16.0, 16.0)]


def nothing():
    raise LookupError("the cable is out")


def test_the_table_has_a_line_a_chip_and_says_what_is_unknown():
    head, first, second = chips.table(two_chips).splitlines()
    assert first.count("█") == 5 and "4.00 of  16.00 GiB" in first and "87%" in first
    assert second.count("█") == 20 and second.endswith("?")
    assert head.startswith("chip") and head.endswith("busy")


def test_the_first_reader_that_answers_is_taken():
    assert chips.usage([nothing, two_chips]) == two_chips()
    with pytest.raises(LookupError, match="the cable is out; the cable is out"):
        chips.usage([nothing, nothing])


def test_without_a_tpu_the_table_says_so():
    assert "No chip to show" in chips.table()
    assert "JAX runs on cpu" in chips.table()


def fake_tpu_info(monkeypatch, count, answer):
    """tpu_info's two modules, with the calls of its release 0.14."""
    row = types.SimpleNamespace(
        device_id=3, memory_usage=2**30, total_memory=2**34, duty_cycle_pct=12.5
    )

    def get_chip_usage(kind):
        assert kind == "v5e"
        if not answer:
            raise RuntimeError("UNAVAILABLE")
        return [row]

    package = types.ModuleType("tpu_info")
    package.device = types.SimpleNamespace(get_local_chips=lambda: ("v5e", count))
    package.metrics = types.SimpleNamespace(get_chip_usage=get_chip_usage)
    monkeypatch.setitem(sys.modules, "tpu_info", package)


def test_tpu_info_is_read_in_gib_and_percent(monkeypatch):
    fake_tpu_info(monkeypatch, 1, True)
    assert chips.from_tpu_info() == [Usage(3, 1.0, 16.0, 12.5)]


@pytest.mark.parametrize(
    "count, answer, said", [(0, True, "no TPU"), (1, False, "UNAVAILABLE")]
)
def test_what_tpu_info_lacks_jax_answers(monkeypatch, count, answer, said):
    fake_tpu_info(monkeypatch, count, answer)
    with pytest.raises(LookupError, match=said):
        chips.from_tpu_info()
    stats = {"bytes_in_use": 2**31, "bytes_limit": 2**33}
    device = types.SimpleNamespace(id=0, memory_stats=lambda: stats)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    assert chips.usage() == [Usage(0, 2.0, 8.0, None)]


def test_the_widget_reads_again_and_stops():
    readings = iter(range(1, 1000))
    box = chips.watch(0.01, lambda: [Usage(0, next(readings), 1000.0)])
    first = box.children[0].value
    deadline = time.monotonic() + 10
    while box.children[0].value == first and time.monotonic() < deadline:
        time.sleep(0.01)
    assert box.children[0].value != first
    box.children[1].click()
    time.sleep(0.1)
    last = box.children[0].value
    time.sleep(0.1)
    assert box.children[0].value == last and box.children[1].disabled
