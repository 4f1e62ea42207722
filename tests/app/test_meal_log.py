"""The log of meals: sums by hand, weights undone exactly, windows side by side."""

import concurrent.futures
import datetime
import sqlite3

import pytest

from helpers.app import meal_log
from helpers.app.meal_log import MealLog, MealLogError, scaled, total
from helpers.tools.nutrition import NUTRIENTS, lookup_nutrition

PIZZA = lookup_nutrition("pizza", 150)
RAMEN = lookup_nutrition("ramen", 100)
MADE_UP = {"food": "apple", "grams": 100} | dict.fromkeys(NUTRIENTS, 10)


@pytest.fixture
def log(tmp_path):
    return MealLog(tmp_path / "deep" / "meals.sqlite")


def at(day, hour=12):
    return datetime.datetime(2026, 3, day, hour).astimezone()


def test_a_day_has_its_meals_in_order_and_their_sum(log):
    log.add([MADE_UP], "model a", time=at(1))
    log.add([scaled(MADE_UP, 250)], "model b", time=at(1, 20))
    log.add([MADE_UP], "model a", time=at(2))
    first, second = log.day("2026-03-01")
    assert (first.model, second.model) == ("model a", "model b")
    assert second.portion["grams"] == 250 and second.portion["salt"] == 25
    assert total([first.portion, second.portion]) == dict.fromkeys(NUTRIENTS, 35)
    assert total([]) == dict.fromkeys(NUTRIENTS, 0)
    assert log.day("2026-03-03") == log.day() == []


def test_midnight_is_where_the_eater_is(log):
    east = datetime.timezone(datetime.timedelta(hours=14))
    log.add([MADE_UP], "m", time=datetime.datetime(2026, 3, 2, 1, tzinfo=east))
    local = datetime.datetime(2026, 3, 2, 1, tzinfo=east).astimezone().date()
    assert len(log.day(local.isoformat())) == 1


def test_a_portion_comes_back_exactly(log):
    crumb = scaled(PIZZA, 0.001)
    assert crumb["kcal"] == pytest.approx(PIZZA["kcal"] * 0.001 / 150)
    log.add([PIZZA, crumb], "m")
    assert [meal.portion for meal in log.day()] == [PIZZA, crumb]


def test_deleting_takes_one_out(log):
    log.add([PIZZA, RAMEN], "m")
    first, second = log.day()
    log.delete(first.id)
    assert log.day() == [second]
    with pytest.raises(KeyError, match=f"no meal {first.id}"):
        log.delete(first.id)


def test_grams_that_nobody_eats(log):
    for grams in (0, -1, 5001, float("nan"), "9", None):
        with pytest.raises(ValueError, match="grams"):
            log.add([RAMEN, scaled(PIZZA, grams)], "m")
        with pytest.raises(ValueError, match="grams"):
            log.add((scaled(RAMEN, each) for each in (100, grams)), "m")
    assert log.day() == [], "all or nothing is logged"


def add_many(path, count):
    log = MealLog(path)
    for _ in range(count):
        log.add([MADE_UP], "m")


def test_windows_write_side_by_side(tmp_path):
    """The first uses race to make the file, too."""
    path = tmp_path / "meals.sqlite"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(add_many, [path] * 3, [12] * 3))
    logged = MealLog(path).day()
    assert len(logged) == len({meal.id for meal in logged}) == 36


def test_a_file_that_is_no_log(log):
    log.path.parent.mkdir()
    log.path.write_bytes(b"no database" * 100)
    with pytest.raises(MealLogError, match="cannot be used.*move the file away"):
        log.add([PIZZA], "m")
    assert log.path.read_bytes().startswith(b"no database")


def test_a_log_that_is_locked_says_so(log, monkeypatch):
    log.add([PIZZA], "m")
    monkeypatch.setattr(meal_log, "WAIT", 0.1)
    other = sqlite3.connect(log.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MealLogError, match="locked. Close other programs"):
        log.add([PIZZA], "m")
    other.close()
    assert len(log.day()) == 1


def test_next_to_nothing_of_a_food_is_nothing_in_any_weight(log):
    crumb = lookup_nutrition("pizza", 1e-320)
    log.add([scaled(crumb, 0.1)], "a model that writes absurd numbers")
    assert set(scaled(crumb, 5000).values()) == {"pizza", 5000, 0}
    assert set(total([log.day()[0].portion]).values()) == {0}
