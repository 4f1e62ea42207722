"""The tables of measurements: rows are replaced by key, and pages show them."""

import pytest

from scripts import results, tables

KEY = ("stage", "seed")


def test_a_row_takes_the_place_of_its_earlier_one(tmp_path):
    path = tmp_path / "t.csv"
    note = 'a "b", c\nd'
    tables.put(path, [{"stage": "sft", "seed": 0, "note": note}], KEY)
    tables.put(path, [{"stage": "grpo", "seed": 0, "note": ""}], KEY)
    tables.put(path, [{"stage": "sft", "seed": 0, "note": "new"}], KEY)
    rows = tables.read(path)
    assert [(row["stage"], row["note"]) for row in rows] == [
        ("sft", "new"),
        ("grpo", ""),
    ]
    assert tables.has(path, stage="grpo", seed=0)
    assert not tables.has(path, stage="grpo", seed=1)
    with pytest.raises(ValueError):
        tables.put(path, [{"stage": "sft", "seed": 0, "other": 1}], KEY)
    assert tables.read(path) == rows


def test_a_span_is_mean_lowest_and_highest():
    assert results.span([0.5, 0.25, 0.75]) == "50.0% (25.0 to 75.0)"
    assert results.span([12.4, 14.0], "") == "13 (12 to 14)"
    assert results.span([0.5]) == "50.0%"


@pytest.mark.parametrize("page", results.pages(), ids=lambda page: page.name)
def test_a_page_shows_the_tables_as_they_are_now(page):
    text = page.read_text()
    assert text == results.fill(text), "run `make results`"
