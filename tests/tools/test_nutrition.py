"""The nutrition table against published figures, and the tool against hostile calls."""

import json
import math
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.food.food101 import LABELS
from helpers.tools import nutrition

PUBLISHED = pathlib.Path(__file__).with_name("usda.txt").read_text().splitlines()[2:]

FOODS = nutrition.foods()


def test_the_table_has_the_classes_of_food_101_and_no_others():
    assert len(FOODS) == 101 and sorted(FOODS) == sorted(LABELS)


def test_a_name_stands_for_one_food():
    names = nutrition.names()
    assert names["bolognese"] == "spaghetti_bolognese"
    written = sum(1 + len(row["aliases"].split(";")) for row in FOODS.values())
    written -= sum(not row["aliases"] for row in FOODS.values())
    assert len(names) == written, "an alias stands for two"


def test_rows_are_plausible():
    for food, row in FOODS.items():
        energy = 4 * row["protein"] + 9 * row["fat"] + 4 * row["carbohydrate"]
        assert energy == pytest.approx(row["kcal"], rel=0.15), food
        assert row["sugar"] + row["fibre"] <= row["carbohydrate"] + 0.05, food
        grams = sum(row[name] for name in ("protein", "fat", "carbohydrate", "salt"))
        assert min(row[name] for name in nutrition.NUTRIENTS) >= 0 and grams <= 100
        assert 20 <= row["kcal"] <= 600 and row["salt"] <= 2.5, food
        assert 30 <= row["serving"] <= 600, food
        source = row["checked_against"]
        assert source.startswith(("SR ", "half SR ", "estimated from ")), food


def test_rows_that_name_a_usda_entry_hold_its_figures():
    for line in PUBLISHED:
        food, number, *published, sodium = line.split()
        row = FOODS[food]
        assert row["checked_against"].startswith(f"SR {number} ")
        for name, figure in zip(nutrition.NUTRIENTS, published, strict=False):
            if figure == "-":
                assert name in row["checked_against"], "say what is estimated"
            else:
                assert row[name] == pytest.approx(float(figure), abs=0.0501), food
        salt = float(sodium) * 2.5 / 1000
        assert row["salt"] == pytest.approx(salt, abs=0.00501), food


# --- the tool ---


def test_absurd_grams_are_refused():
    absurd = [0, -1, -0.0, math.nan, math.inf, 5001, 10**400, "150", None, True, [1]]
    for grams in [*absurd, {}, 1j, b"1"]:
        result = nutrition.lookup_nutrition("pizza", grams)
        assert set(result) == {"error"} and len(result["error"]) <= 160


def test_what_is_no_food_is_an_error():
    foods = ["", "   ", "x" * 61, "pizza" * 10**6, None, 7, ["pizza"], b"pizza"]
    foods += ["pi\u200bzza", "pizza\x00", "pizza\n\n\x1b[2J", "\u0301", "_-_", "\ud800"]
    foods += ["'; DROP TABLE foods; --", "__import__('os').system('touch hacked')"]
    for food in foods:
        assert len(nutrition.lookup_nutrition(food, 100)["error"]) <= 160


def test_the_result_is_the_total_for_the_grams():
    assert nutrition.lookup_nutrition("pizza", 150) == {
        "food": "pizza",
        "grams": 150,
        "kcal": 402,  # 268 * 1.5
        "protein": 15.6,
        "fat": pytest.approx(18.4, abs=0.06),  # 12.3 * 1.5 = 18.45
        "carbohydrate": 43.5,
        "sugar": 5.4,
        "fibre": 3.3,
        "salt": 1.68,
    }


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(LABELS), st.floats(0.5, 5000))
def test_totals_are_in_proportion(food, grams):
    result = nutrition.lookup_nutrition(food, grams)
    assert json.loads(json.dumps(result)) == result
    for name in nutrition.NUTRIENTS:
        exact = FOODS[food][name] * grams / 100
        step = {"kcal": 1, "salt": 0.01}.get(name, 0.1)
        assert abs(result[name] - exact) <= step / 2 + 1e-9


def test_one_food_by_many_names():
    names = "creme_brulee|Crème Brûlée|CREME-BRULEE| creme  brulee |ｃreme brulee|"
    names += "cre\u0300me bru\u0302le\u0301e|burnt cream"
    for name in names.split("|"):
        assert nutrition.lookup_nutrition(name, 100)["food"] == "creme_brulee"
        assert nutrition.canonical(name) == "creme_brulee"


def test_an_unknown_food_gives_suggestions():
    close = {"pizzza": "pizza", "hamburgers": "hamburger", "duck": "peking_duck"}
    for name, suggested in close.items():
        result = nutrition.lookup_nutrition(name, 100)
        assert f"No food is called '{name}'" in result["error"]
        assert suggested in result["suggestions"] and len(result["suggestions"]) <= 3
