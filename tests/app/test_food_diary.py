"""The diary of the food app: what is corrected and deleted is so in the log."""

import datetime

import pytest

from helpers.app import food_diary
from helpers.app.meal_log import MealLog
from helpers.tools.nutrition import lookup_nutrition

gradio = pytest.importorskip("gradio")
PIZZA, RAMEN = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)


@pytest.fixture
def log(tmp_path):
    return MealLog(tmp_path / "meals.sqlite")


def shown(log):
    """What stands on the page, and what its controls do, in order."""
    with gradio.Blocks() as page:
        food_diary.show(gradio, log, gradio.State(0))
    blocks = [b for b in page.blocks.values() if getattr(b, "visible", True)]
    return blocks, [each.fn for each in page.fns.values()]


def values(blocks, kind):
    return [block.value for block in blocks if isinstance(block, kind)]


def test_an_empty_day_says_so(log):
    blocks, actions = shown(log)
    assert "Nothing is logged yet." in values(blocks, gradio.HTML)[0]
    assert not actions and not values(blocks, gradio.Markdown)


def test_a_day_has_its_meals_their_sum_and_the_week(log):
    log.add(PIZZA, "the student")
    log.add(RAMEN, "by hand", grams=200)
    log.add(PIZZA, "x", time=datetime.datetime.now() - datetime.timedelta(1))
    blocks, _ = shown(log)
    numbers = [block for block in blocks if isinstance(block, gradio.Number)]
    assert [number.value for number in numbers] == [150, 200]
    assert numbers[0].label.endswith("pizza, grams (the student)")
    today = PIZZA["kcal"] + 2 * RAMEN["kcal"]
    (table,) = values(blocks, gradio.Markdown)
    assert f"| kcal | {today} kcal |" in table
    week = values(blocks, gradio.HTML)[-1]
    assert f"{PIZZA['kcal']}, " in week and f" {today}." in week, (
        "in the words of the plot"
    )


def test_grams_are_corrected_and_meals_deleted(log):
    log.add(PIZZA, "x")
    log.add(RAMEN, "x")
    _, (correct, remove, *_) = shown(log)
    assert correct(7, 300) == 8 and log.day()[0].portion["grams"] == 300
    assert correct(7, 150) == 7, "nothing was changed in the field"
    for grams in (None, 0, 1e9):
        with pytest.raises(gradio.Error):
            correct(7, grams)
    assert [meal.portion["grams"] for meal in log.day()] == [300, 100]
    assert remove(8) == 9
    assert [meal.portion["food"] for meal in log.day()] == ["ramen"]
    with pytest.raises(gradio.Error, match="deleted"):
        remove(9)


def test_a_log_that_cannot_be_read_is_told(log):
    log.path.write_text("no database, whatever its name says" * 100)
    with pytest.raises(gradio.Error, match="cannot be used"):
        shown(log)
