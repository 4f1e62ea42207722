"""The tables of measurements: read as written, and never half there."""

import pytest

from scripts import tables

ROWS = [{"stage": "sft", "note": 'a "b", c\nd'}, {"stage": "grpo", "note": ""}]


def test_a_table_is_read_as_it_was_written(tmp_path):
    table = tmp_path / "table.csv"
    assert tables.read(table) == []
    tables.write(table, ROWS)
    assert tables.read(table) == ROWS
    assert table.read_text().splitlines()[0] == "stage,note"
    assert b"\r" not in table.read_bytes()


def test_columns_stand_in_the_order_asked_for(tmp_path):
    table = tmp_path / "table.csv"
    tables.write(table, [{"b": 1, "a": 2}], ("a", "b"))
    assert table.read_text() == "a,b\n2,1\n"


def test_a_write_that_fails_leaves_the_old_table(tmp_path):
    table = tmp_path / "table.csv"
    tables.write(table, ROWS)
    with pytest.raises(ValueError, match="extra"):
        tables.write(table, [*ROWS, {"stage": "x", "note": "", "extra": 1}])
    assert tables.read(table) == ROWS
