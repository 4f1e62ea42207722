"""The log of meals: sums by hand, edits undone exactly, windows side by side."""

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
    log.add(MADE_UP, "model a", time=at(1))
    log.add(MADE_UP, "model b", grams=250, time=at(1, 20))
    log.add(MADE_UP, "model a", time=at(2))
    first, second = log.day("2026-03-01")
    assert (first.model, second.model) == ("model a", "model b")
    assert second.portion["grams"] == 250 and second.portion["salt"] == 25
    assert log.totals("2026-03-01") == dict.fromkeys(NUTRIENTS, 35)
    assert log.totals("2026-03-03") == dict.fromkeys(NUTRIENTS, 0)
    assert log.totals() == total([]) and log.day() == []


def test_midnight_is_where_the_eater_is(log):
    east = datetime.timezone(datetime.timedelta(hours=14))
    log.add(MADE_UP, "m", time=datetime.datetime(2026, 3, 2, 1, tzinfo=east))
    local = datetime.datetime(2026, 3, 2, 1, tzinfo=east).astimezone().date()
    assert len(log.day(local.isoformat())) == 1


def test_an_edit_is_undone_exactly(log):
    meal = log.add(PIZZA, "m")
    log.edit(meal, 0.001)
    assert log.totals()["kcal"] == pytest.approx(PIZZA["kcal"] * 0.001 / 150)
    log.edit(meal, 150)
    assert log.day()[0].portion == PIZZA


def test_deleting_takes_one_out(log):
    first, second = log.add(PIZZA, "m"), log.add(RAMEN, "m")
    log.delete(first)
    assert [meal.id for meal in log.day()] == [second]
    for change in (lambda: log.delete(first), lambda: log.edit(first, 100)):
        with pytest.raises(KeyError, match=f"no meal {first}"):
            change()


def test_grams_that_nobody_eats(log):
    meal = log.add(PIZZA, "m")
    for grams in (0, -1, 5001, float("nan"), "9", None):
        with pytest.raises(ValueError, match="grams"):
            log.edit(meal, grams)
        with pytest.raises(ValueError, match="grams"):
            log.add_all([(RAMEN, 100), (PIZZA, grams)], "m")
    assert [meal.portion for meal in log.day()] == [PIZZA], "all or nothing is logged"
    first, second = log.add_all([(PIZZA, 100), (RAMEN, 200)], "m")
    assert [meal.id for meal in log.day()] == [meal, first, second]
    assert [meal.portion["grams"] for meal in log.day()] == [150, 100, 200]


def add_many(path, count):
    log = MealLog(path)
    for _ in range(count):
        log.add(MADE_UP, "m")


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
        log.add(PIZZA, "m")
    assert log.path.read_bytes().startswith(b"no database")


def test_a_log_that_is_locked_says_so(log, monkeypatch):
    log.add(PIZZA, "m")
    monkeypatch.setattr(meal_log, "WAIT", 0.1)
    other = sqlite3.connect(log.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MealLogError, match="locked. Close other programs"):
        log.add(PIZZA, "m")
    other.close()
    assert len(log.day()) == 1


def test_next_to_nothing_of_a_food_is_nothing_in_any_weight(log):
    crumb = lookup_nutrition("pizza", 1e-320)
    log.add(crumb, "a model that writes absurd numbers", grams=0.1)
    assert set(scaled(crumb, 5000).values()) == {"pizza", 5000, 0}
    assert set(log.totals().values()) == {0}
