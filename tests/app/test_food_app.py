"""The app's widgets, without a browser: `make app-check` opens it in one."""

import io
import re
from html import unescape

import ipywidgets
import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers import runtime
from helpers.app import food_app, food_panels, local_model, meal_log, meal_view
from helpers.app.assistant import BackendError, Event, converse
from helpers.app.food_panels import SERVER, UPLOADED
from helpers.model import weights
from helpers.plots import plotting
from helpers.tasks.food import food_questions
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.nutrition import NUTRIENTS, lookup_nutrition
from helpers.tools.tool_calls import Call

GREY = np.full((20, 30, 3), 128, np.uint8)
PIZZA = lookup_nutrition("pizza", 150)


def missing():
    raise BackendError("There is no model: run notebook 10.")


@pytest.fixture
def app(tmp_path):
    backends = {
        "pizza": lambda: Scripted("sees pizza", "pizza"),
        "ramen": lambda: Scripted("sees ramen", "ramen"),
        "nothing": lambda: Scripted("sees nothing", None),
        "missing": missing,
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return food_app._Assistant(backends, log, {"grey": GREY, "dark": GREY // 2})


def file_of(picture, kind="PNG", **more):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, kind, **more)
    return file.getvalue()


def upload(app, content, old=False):
    """As the browser's widget sets it: ipywidgets 8, or 7 where `old`."""
    entry = {"name": "a.png", "type": "image/png", "content": content}
    value = {"a.png": entry} if old else ({**entry, "content": memoryview(content)},)
    app.picture._take({"new": value})


def shown_events(app):
    return re.findall(r"food-event food-(\w+)", app.events.value)


def test_asking_shows_the_call_the_table_and_the_plot(app):
    app.ask.click()
    assert shown_events(app) == ["said", "call", "result", "answer"]
    assert "in 30 x 20" in app.events.value
    assert "<th scope='col'>pizza, 150 g</th>" in app.meal.table.value
    assert f"<td>{PIZZA['kcal']} kcal</td>" in app.meal.table.value
    (alt,) = re.findall(r'<img alt="([^"]*)"', app.meal.plot.value)
    assert "fat 18 g" in alt and "max-width:100%" in app.meal.plot.value
    assert not app.ask.disabled


def test_events_are_shown_one_by_one(app):
    seen = []
    app.events.observe(lambda change: seen.append(shown_events(app)), "value")
    app.ask.click()
    kinds = ["said", "call", "result", "answer"]
    assert seen == [[], *(kinds[: i + 1] for i in range(4))]


def test_grams_are_corrected_before_logging(app):
    app.ask.click()
    (field,) = app.meal.grams.children
    assert field.description == "Grams of pizza"
    field.value = 300
    assert "pizza, 300 g" in app.meal.table.value
    assert f"<td>{2 * PIZZA['kcal']} kcal</td>" in app.meal.table.value
    app.meal.save.click()
    (meal,) = app.day.log.day()
    assert meal.portion["grams"] == 300 and meal.model == "sees pizza"
    assert "804 kcal" in app.day.table.value
    app.meal.save.click()
    assert len(app.day.log.day()) == 1, "a second click logs nothing"


def test_another_model_answers_otherwise(app):
    app.ask.click()
    app.model.pick.value = "ramen"
    app.ask.click()
    assert "ramen, 150 g" in app.meal.table.value
    app.model.pick.value = "nothing"
    app.ask.click()
    assert shown_events(app) == ["answer"] and app.meal.box.children == ()


def test_a_model_that_is_missing_is_told_and_another_can_be_asked(app):
    app.model.pick.value = "missing"
    app.ask.click()
    assert shown_events(app) == ["error"] and "run notebook 10" in app.events.value
    app.model.pick.value = "pizza"
    app.ask.click()
    assert shown_events(app)[-1] == "answer"


def test_after_a_fault_of_our_own_one_can_ask_again(app, monkeypatch):
    def faulty(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(food_app, "converse", faulty)
    with pytest.raises(ZeroDivisionError):
        app._ask(app.ask)
    assert not app.ask.disabled


def test_a_model_is_made_once(app):
    made = []
    app.model.backends["pizza"] = lambda: made.append(1) or Scripted("p", "pizza")
    app.ask.click()
    app.ask.click()
    assert made == [1]


def test_a_server_has_fields_of_its_own(app):
    assert app.model.server.layout.display == "none"
    app.model.pick.value = SERVER
    assert app.model.server.layout.display == ""
    app.model.address.value = "http://127.0.0.1:9/v1"
    app.model.model.value, app.model.key.value = "big", "secret"
    backend = app.model.backend
    assert (backend.model, backend.key) == ("big", "secret")
    app.ask.click()
    assert shown_events(app) == ["error"] and "secret" not in app.events.value


@pytest.mark.parametrize("old", [False, True])
def test_an_upload_is_what_is_asked_about(app, old):
    upload(app, file_of(np.zeros((10, 50, 3), np.uint8)), old)
    assert app.picture.pick.value == UPLOADED
    app.ask.click()
    assert "in 50 x 10" in app.events.value
    upload(app, file_of(np.zeros((7, 9, 3), np.uint8)), old)
    assert app.picture.picture.shape == (7, 9, 3)
    app.picture.pick.value = "grey"
    assert app.picture.picture is GREY


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "not a picture"),
        (b"<svg onload=alert(1)>", "not a picture"),
        (b"x" * 8_000_001, "8.0 MB, more than 8"),
        (file_of(GREY)[:60], "broken or cut off|not a picture"),
        (file_of(np.zeros((8000, 8000), np.uint8)), "more than 50,000,000|too large"),
    ],
)
def test_an_upload_that_is_no_photo_is_refused(app, content, said):
    before = app.picture.shown.value
    upload(app, content)
    assert re.search(said, app.picture.said.value)
    assert "role='alert'" in app.picture.said.value
    assert app.picture.shown.value == before and UPLOADED not in app.picture.pictures
    upload(app, file_of(GREY))
    assert app.picture.said.value == ""


def test_a_meal_of_today_is_corrected_and_deleted(app):
    for _ in range(2):
        app.ask.click()
        app.meal.save.click()
    first, second = (meal.id for meal in app.day.log.day())
    app.day.pick.value = second
    app.day.grams.value = 75
    app.day.correct.click()
    assert app.day.pick.value == second and app.day.grams.value == 75
    assert f"{PIZZA['kcal'] * 1.5:.0f} kcal" in app.day.table.value
    app.day.delete.click()
    assert [meal.id for meal in app.day.log.day()] == [first]
    app.day.delete.click()
    assert "Nothing is logged" in app.day.table.value
    assert app.day.controls.layout.display == "none"


def test_a_meal_deleted_in_another_window_is_told(app):
    app.ask.click()
    app.meal.save.click()
    app.day.log.delete(app.day.pick.value)
    app.day.correct.click()
    assert "deleted, perhaps in another window" in app.day.said.value
    assert app.day.controls.layout.display == "none"


def test_a_log_that_cannot_be_used_is_told(app):
    app.ask.click()
    app.day.log.path.write_bytes(b"no database" * 100)
    app.meal.save.click()
    assert "move the file away" in app.meal.said.value
    assert not app.meal.save.disabled


def walk(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def test_every_control_has_a_label(app):
    app.ask.click()
    app.meal.save.click()
    controls = [
        widget
        for widget in walk(app.box)
        if not isinstance(widget, ipywidgets.Box | ipywidgets.HTML)
    ]
    assert len(controls) == 14
    assert all(control.description for control in controls)


def test_what_models_say_is_escaped():
    nasty = "<script>alert(1)</script>"
    call = Call(nasty, {nasty: nasty})
    portion = {"food": nasty, "grams": 1} | dict.fromkeys(NUTRIENTS, 1.0)
    logged = [meal_log.Meal(1, "2026-03-01T12:00:00", nasty, portion)]
    for html in (
        *(
            meal_view.event_html(Event(kind, nasty, call, {nasty: nasty}))
            for kind in ("said", "call", "result", "answer", "error")
        ),
        meal_view.event_html(Event("result", result={"error": nasty})),
        meal_view.table_html([portion, portion], nasty),
        meal_view.day_html(logged, nasty),
        meal_view.picture_html(GREY, '">' + nasty),
        meal_view.beside_html(GREY, nasty, {nasty: [Event("answer", nasty)]}),
    ):
        assert "<script" not in html
    long = meal_view.event_html(Event("said", "x" * 10_000))
    assert len(long) < 2_200


def test_two_models_stand_side_by_side_in_the_order_given():
    told = {"one": [Event("answer", "1")], "two": [Event("answer", "2")]}
    html = meal_view.beside_html(GREY, "A grey plate", told)
    heads = re.findall("<th[^>]*>(.*?)</th>", html)
    cells = re.findall("<td[^>]*>.*?<span>(.*?)</span>.*?</td>", html)
    assert heads == ["one", "two"] and cells == ["1", "2"]
    assert html.index('alt="A grey plate"') < html.index("<table")


def test_the_picture_of_the_app_shows_what_the_shipped_student_does():
    """Its words are those of a conversation that is held anew."""
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    student = local_model.LocalModel(model, tokenizer, nutrition.TINY, "student")
    row = food_app.example_rows()[0]
    question = food_questions.ONE_FOOD[0].format(food_app.GRAMS)
    events = list(converse(student, question, row["image"], [nutrition.TOOL]))
    assert [event.kind for event in events] == ["call", "result", "answer"]
    html, alt = meal_view.app_picture()
    for event in events:
        line = re.sub("<[^>]*>", "", meal_view.event_html(event))
        assert unescape(line) in alt
    asked = next(iter(food_app.STUDENTS))
    for text in (question, *row["foods"], asked, "example 1"):
        assert text in alt
    for name in NUTRIENTS:
        assert meal_view.amount(name, events[1].result[name]) in alt
    size = Image.open(meal_view.APP_PICTURE).size
    assert size[0] == 2 * meal_view.APP_WIDTH and len(html) < 200_000


def test_a_table_of_two_foods_has_their_sum():
    ramen = lookup_nutrition("ramen", 100)
    html = meal_view.table_html([PIZZA, ramen], "Both")
    first, second, both = map(int, re.findall(r"<td>(\d+) kcal</td>", html))
    assert (first, second) == (PIZZA["kcal"], ramen["kcal"]) and both == first + second


def test_the_plots_words_are_true():
    portion = {"food": "x", "grams": 100} | dict.fromkeys(NUTRIENTS, 0)
    portion |= {"carbohydrate": 10, "fat": 10, "protein": 10}  # 40, 90, 40 kcal
    fig, alt = meal_view.macros([portion])
    assert "fat 10 g (53% of the energy)" in alt
    assert fig.axes[0].get_title("left") == "Fat gives the most energy: 53%"
    widths = [bar.get_width() for bar in fig.axes[0].patches]
    assert widths == [40, 90, 40]
    assert plotting.png(fig).startswith(b"\x89PNG")
    meal_view.macros([portion | dict.fromkeys(("carbohydrate", "fat", "protein"), 0)])


def test_examples_are_drawn_and_the_courses_models_have_names():
    examples = food_app.drawn_examples(3)
    assert [picture.shape for picture in examples.values()] == [(48, 48, 3)] * 3
    assert list(food_app.course_models()) == list(food_app.STUDENTS)


def contrast(a, b):
    """WCAG 2.1's contrast ratio of two colours such as "#0072B2"."""

    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in channels
        ]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_is_easily_read():
    pairs = re.findall(r"background:(#\w{6});color:(#\w{3,6})", food_app.STYLE)
    assert len(pairs) == 2
    for back, front in pairs:
        assert contrast(back, "#ffffff") >= 4.5 and front == "#fff"
    for back in ("#EEF5FA", "#FDF1EA"):
        assert back in food_app.STYLE and contrast(back, "#000000") >= 4.5


def test_a_box_is_what_the_notebook_shows(tmp_path):
    box = food_app.app({}, log=meal_log.MealLog(tmp_path / "m.sqlite"))
    assert isinstance(box, ipywidgets.VBox)
    assert food_panels.SERVER in [
        option
        for w in walk(box)
        if isinstance(w, ipywidgets.Dropdown)
        for option in w.options
    ]
