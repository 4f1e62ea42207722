"""The food app's page without a browser: what it answers, what it keeps and refuses."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers.app import food_app, food_models, food_page, meal_log
from helpers.app.assistant import BackendError
from helpers.app.food_models import DRAWINGS, Choice
from helpers.app.food_page import NOBODY, QUESTION
from helpers.tools.nutrition import lookup_nutrition

gradio = pytest.importorskip("gradio")
GREY = np.full((20, 30, 3), 128, np.uint8)
PIZZA, RAMEN = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)


def missing():
    raise BackendError("There is no model: run notebook 10.")


class Doubtful(Scripted):
    """One that gave its first turn a probability of 0.3."""

    def begin(self, question, picture):
        talk = super().begin(question, picture)
        talk.certainty = 0.3
        return talk


def scripted(food, kind=Scripted, **known):
    return Choice(lambda: kind(f"sees {food}", food), "scripted", **known)


@pytest.fixture
def page(tmp_path):
    models = {
        "pizza": scripted("pizza"),
        "ramen": scripted("ramen", seen=DRAWINGS),
        "nothing": scripted(None),
        "doubt": scripted("pizza", Doubtful, sure=0.5),
        "certain": scripted("pizza", Doubtful, sure=0.2),
        "missing": Choice(missing, "nowhere"),
        "away": food_models.on_server("http://127.0.0.1:9/v1", "big", "secret"),
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return food_page.Page(food_app._gradio(), models, log, [GREY])


def file_of(folder, picture, name="a.png"):
    Image.fromarray(picture).save(folder / name)
    return str(folder / name)


def steps(page, path, pick, other=NOBODY, past=((), ())):
    """All that `ask` yields: (chat, the other chat, past, meal)."""
    return list(page.ask(past, path, QUESTION, pick, other))


def text(html):
    return re.sub("<[^>]*>", " ", html)


@pytest.fixture
def grey(tmp_path):
    return file_of(tmp_path, GREY)


def test_steps_come_one_by_one_and_stay(page, grey):
    yielded = steps(page, grey, "pizza")
    folds = [chat.count("<details") for chat, *_ in yielded]
    assert folds == [0, 1, 2, 2, 2], "nothing, said, call, its result, answer"
    opened = ["<details class='food-step' open>" in chat for chat, *_ in yielded]
    assert opened == [False, False, True, False, False]
    found = [meal["found"] for *_, meal in yielded]
    assert found == [[], [], [], [PIZZA], [PIZZA]]
    chat, other, past, meal = yielded[-1]
    assert "There are 402 kcal in 150 g of pizza." in chat
    assert "food-asked" not in other
    assert meal == {"found": [PIZZA], "model": "pizza", "why": ""}
    assert len(past[0]) == 2 and not past[1] and 'alt="Your plate"' in chat


def test_two_models_stand_side_by_side(page, grey):
    yielded = steps(page, grey, "pizza", "nothing")
    chat, other, _, meal = yielded[-1]
    assert "of pizza" in chat and "I see no food" in other
    assert "of pizza" not in other and "no food" not in chat
    assert meal["model"] == "pizza", "what the first one found is offered"
    for shown in (chat, other):
        assert re.search(r"\d\.\d s, unknown tokens", shown) and QUESTION in shown


def test_what_was_asked_before_stays_for_a_while(page, grey):
    past = ((), ())
    for count in (1, 2, 3):
        chat, _, past, _ = steps(page, grey, "pizza", past=past)[-1]
        assert chat.count("food-asked") == chat.count("There are 402") == count
    many = (["<p>x</p>"] * 1000, [])
    chat, *_ = steps(page, grey, "pizza", past=many)[-1]
    assert chat.count("<p>x</p>") == food_page.MOST_SHOWN


def test_what_is_in_a_session_is_not_changed_under_it(page, grey):
    past = [[], []]
    steps(page, grey, "pizza", "ramen", past=past)
    assert past == [[], []], "another session may hold the same value"


def test_a_photo_to_a_model_of_drawings_is_told_and_needs_a_yes(page, tmp_path, grey):
    photo = file_of(tmp_path, np.zeros((10, 50, 3), np.uint8), "photo.png")
    first, *_, (chat, _, _, meal) = steps(page, photo, "ramen")
    assert DRAWINGS in text(first[0]), "before it answers"
    assert "role='alert'" in chat and meal["found"]
    with pytest.raises(ValueError, match="seen no photo"):
        page.keep(meal, False, [150])
    assert page.log.day() == []
    page.keep(meal, True, [300])
    assert page.log.day()[0].portion["grams"] == 300
    chat, _, _, meal = steps(page, grey, "ramen")[-1]
    assert "alert" not in chat and meal["why"] == "", "grey is one of its drawings"
    chat, _, _, meal = steps(page, photo, "pizza")[-1]
    assert "alert" not in chat and meal["why"] == ""
    chat, other, _, meal = steps(page, photo, "pizza", "ramen")[-1]
    assert "alert" not in chat and DRAWINGS in text(other) and meal["why"] == ""


def test_doubt_is_said_and_needs_a_yes(page, grey):
    chat, _, _, meal = steps(page, grey, "doubt")[-1]
    assert "I am not sure. There are 402" in chat
    with pytest.raises(ValueError, match="not sure"):
        page.keep(meal, False, [150])
    assert page.log.day() == []
    chat, _, _, meal = steps(page, grey, "certain")[-1]
    assert "not sure" not in chat and meal["why"] == ""
    chat, _, _, meal = steps(page, grey, "pizza", "doubt")[-1]
    assert meal["why"] == "", "the other one's doubt is not about this meal"


def test_a_model_that_is_missing_is_told_and_another_can_be_asked(page, grey):
    chat, other, _, meal = steps(page, grey, "missing", "pizza")[-1]
    assert "run notebook 10" in chat and "of pizza" in other and not meal["found"]
    chat, _, _, meal = steps(page, grey, "away")[-1]
    assert "Start the server" in chat and "secret" not in chat and not meal["found"]


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "not a picture"),
        (b"<svg onload=alert(1)>", "not a picture"),
        (b"\x89PNG\r\n\x1a\n" + b"0" * 60, "broken or cut off|not a picture"),
        (None, "more than 50,000,000|too large"),
    ],
)
def test_a_file_that_is_no_photo_is_refused(page, tmp_path, content, said):
    path = tmp_path / "file.png"
    if content is None:
        file = io.BytesIO()
        Image.new("1", (9000, 9000)).save(file, "PNG")
        content = file.getvalue()
    path.write_bytes(content)
    with pytest.raises(gradio.Error) as refused:
        steps(page, str(path), "pizza")
    assert re.search(said, refused.value.message)
    with pytest.raises(gradio.Error, match="Show a plate first"):
        steps(page, None, "pizza")


def test_a_photo_that_is_no_longer_kept_has_to_be_uploaded_again(page, tmp_path):
    with pytest.raises(gradio.Error, match="upload it again"):
        steps(page, str(tmp_path / "gone.png"), "pizza")


def test_grams_that_nobody_eats_are_not_logged(page):
    meal = {"found": [PIZZA, RAMEN], "model": "x", "why": ""}
    for grams in (0, -5, 1e9, None, "150"):
        with pytest.raises(ValueError):
            page.keep(meal, False, [100, grams])
    assert page.log.day() == [], "nor the half of a meal"


def test_who_answers_is_told(page):
    beside, told = page.choose("away", "ramen")
    assert beside["visible"] is True
    assert f"<p>ramen: scripted. {DRAWINGS}</p>" in told
    assert "away: on the server at http://127.0.0.1:9/v1, as big. " in told
    assert food_models.UNKNOWN in told and "pizza" not in told
    beside, told = page.choose("pizza", NOBODY)
    assert beside["visible"] is False and told.count("<p>") == 1
    page.models["<b>"] = scripted("pizza")
    assert "<b>" not in page.choose("<b>", NOBODY)[1]


def test_two_menus_that_are_changed_in_haste_are_both_heard(page):
    (told,) = (f for f in page.blocks.fns.values() if f.fn == page.choose)
    assert told.trigger_mode == "always_last"
    assert {name for _, name in told.targets} == {"load", "change"}


def test_a_table_of_two_foods_has_their_sum_and_a_plot():
    table, plot = food_page._drawn([PIZZA, RAMEN])
    assert "pizza, 150 g | ramen, 100 g | together" in table
    first, second, both = map(int, re.findall(r"(\d+) kcal", table))
    assert (first, second) == (PIZZA["kcal"], RAMEN["kcal"]) and both == first + second
    assert "together" not in food_page._drawn([PIZZA])[0]
    assert 'alt="Bars of the energy in this meal: carbohydrate' in plot
