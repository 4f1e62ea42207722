"""Tables and plots of meals: every number in them is the meal's own."""

import re

import pytest

from helpers.app import meal_view
from helpers.plots import plotting
from helpers.tools.nutrition import NUTRIENTS, lookup_nutrition


def test_a_table_has_a_row_for_each_nutrient_and_a_column_for_each_food():
    pizza, ramen = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)
    head, rule, *rows = meal_view.table([("one", pizza), ("two", ramen)]).splitlines()
    cells = [re.split(r" *\| *", row.strip("| ")) for row in rows]
    assert [row[0] for row in cells] == list(NUTRIENTS)
    assert re.split(r" *\| *", head.strip("| ")) == ["nutrient", "one", "two"]
    assert rule.count("---") == 3
    for name, *shown in cells:
        unit = "kcal" if name == "kcal" else "g"
        for value, food in zip(shown, (pizza, ramen), strict=True):
            assert value == f"{food[name]} {unit}" or float(value[:-2]) == food[name]


def test_the_plots_words_are_true():
    portion = {"food": "x", "grams": 100} | dict.fromkeys(NUTRIENTS, 0)
    portion |= {"carbohydrate": 10, "fat": 10, "protein": 10}  # 40, 90, 40 kcal
    fig, alt = meal_view.macros([portion])
    assert "carbohydrate 10 g, 24%; fat 10 g, 53%; protein" in alt
    assert fig.axes[0].get_title("left") == "Fat gives the most energy: 53%"
    heights = [bar.get_height() for bar in fig.axes[0].patches]
    assert heights == [40, 90, 40]
    assert [text.get_text() for text in fig.axes[0].texts][1] == "10 g, 53%"
    assert plotting.png(fig).startswith(b"\x89PNG")
    meal_view.macros([portion | dict.fromkeys(("carbohydrate", "fat", "protein"), 0)])


def test_a_week_is_drawn_as_it_was_eaten():
    fig, alt = meal_view.week({"2026-11-22": 0.0, "2026-11-23": 804.0, "2026-11-24": 2})
    assert [bar.get_height() for bar in fig.axes[0].patches] == [0, 804, 2]
    assert [text.get_text() for text in fig.axes[0].texts] == ["", "804", "2"]
    assert alt == "Bars of kcal a day: Sun 22 0, Mon 23 804, Tue 24 2."
    assert "403 kcal a day" in fig.axes[0].get_title("left"), "of the days with meals"
    assert "0 kcal" in meal_view.week({"2026-11-23": 0})[0].axes[0].get_title("left")


@pytest.mark.parametrize("length, shown", [(2_000, 2_000), (2_001, 2_002)])
def test_a_long_text_is_cut_and_says_so(length, shown):
    text = meal_view.shortened("x" * length)
    assert len(text) == shown and text.endswith("…") == (length > 2_000)
