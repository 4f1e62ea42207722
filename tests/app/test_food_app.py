"""The food app without a browser: what it answers, keeps, refuses; it mixes nobody."""

import concurrent.futures
import importlib.metadata
import io
import re
import socket
import sys

import gradio_client
import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers import runtime
from helpers.app import food_app, food_chat, food_page, local_model, meal_log, meal_view
from helpers.app.assistant import BackendError, Event, converse
from helpers.app.food_models import DRAWINGS, STUDENTS, Choice
from helpers.app.food_page import NOBODY, SERVER
from helpers.model import weights
from helpers.plots import plotting
from helpers.tasks.food import food_questions
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.nutrition import NUTRIENTS, lookup_nutrition
from helpers.tools.tool_calls import Call

GREY = np.full((20, 30, 3), 128, np.uint8)
PIZZA = lookup_nutrition("pizza", 150)
QUESTION = "How many kcal are in 150 g of this?"
SESSIONS = 20


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
        "ramen": scripted("ramen", seen=DRAWINGS, draws=True),
        "nothing": scripted(None),
        "doubt": scripted("pizza", Doubtful, sure=0.5),
        "certain": scripted("pizza", Doubtful, sure=0.2),
        "missing": Choice(missing, "nowhere"),
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return food_page.Page(food_app._gradio(), models, log, {"grey": GREY})


def file_of(folder, picture, name="a.png"):
    Image.fromarray(picture).save(folder / name)
    return str(folder / name)


def steps(page, path, pick, other=NOBODY, question=QUESTION, past=()):
    """All that `_ask` yields: (chat, the other chat, past, meal)."""
    fields = ("", "", "")
    return list(page._ask(list(past), path, question, pick, other, *fields))


def text(html):
    return re.sub("<[^>]*>", " ", html)


@pytest.fixture
def grey(tmp_path):
    return file_of(tmp_path, GREY)


def test_steps_come_one_by_one_and_the_meal_last(page, grey):
    yielded = steps(page, grey, "pizza")
    folds = [chat.count("<details") for chat, _, _, _ in yielded]
    assert folds == sorted(folds) and folds[0] == 0 and folds[-1] == 2
    opened = ["<details class='food-step' open>" in chat for chat, *_ in yielded]
    assert any(opened) and not opened[-1]
    assert [bool(meal["found"]) for *_, meal in yielded][-3:] == [False, True, True]
    chat, other, past, meal = yielded[-1]
    assert "There are 402 kcal in 150 g of pizza." in chat and other == ""
    assert meal == {"found": [PIZZA], "model": "pizza", "why": ""}
    assert len(past) == 1 and 'alt="Your plate"' in chat


def test_two_models_stand_side_by_side(page, grey):
    chat, other, _, meal = steps(page, grey, "pizza", "nothing")[-1]
    assert "of pizza" in chat and "I see no food" in other
    assert meal["model"] == "pizza", "what the first one found is offered"
    for shown in (chat, other):
        assert re.search(r"\d\.\d s, tokens not told", shown) and QUESTION in shown


def test_what_was_asked_before_stays(page, grey):
    past = []
    for count in range(1, food_page.TURNS_SHOWN + 3):
        chat, _, past, _ = steps(page, grey, "pizza", past=past)[-1]
        assert chat.count("food-asked") == min(count, food_page.TURNS_SHOWN)


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


def test_doubt_is_said_and_needs_a_yes(page, grey):
    chat, _, _, meal = steps(page, grey, "doubt")[-1]
    assert "I am not sure. There are 402" in chat
    with pytest.raises(ValueError, match="not sure"):
        page.keep(meal, False, [150])
    chat, _, _, meal = steps(page, grey, "certain")[-1]
    assert "not sure" not in chat and meal["why"] == ""


def test_a_model_that_is_missing_is_told_and_another_can_be_asked(page, grey):
    chat, other, _, meal = steps(page, grey, "missing", "pizza")[-1]
    assert "run notebook 10" in chat and "of pizza" in other and not meal["found"]


def test_a_model_is_made_once_and_a_server_for_each_question(page, grey):
    made = []
    choice = Choice(lambda: made.append(1) or Scripted("p", "pizza"), "x")
    page.models["pizza"] = choice
    for _ in range(2):
        steps(page, grey, "pizza")
    assert made == [1]
    fields = ("http://127.0.0.1:9/v1", "big", "secret")
    *_, (chat, _, _, meal) = page._ask([], grey, QUESTION, SERVER, NOBODY, *fields)
    assert "Start the server" in chat and "secret" not in chat and not meal["found"]
    *_, (chat, *_) = page._ask([], grey, QUESTION, SERVER, NOBODY, None, None, None)
    assert "enter an address" in chat


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
    ((chat, _, past, meal),) = steps(page, str(path), "pizza")
    assert re.search(said, chat) and "role='alert'" in chat
    assert not past and not meal["found"]
    assert "Show a plate first" in steps(page, None, "pizza")[0][0]


def test_grams_that_nobody_eats_are_not_logged(page):
    meal = {"found": [PIZZA], "model": "x", "why": ""}
    for grams in (0, -5, 1e9, None, "150"):
        with pytest.raises(ValueError):
            page.keep(meal, False, [grams])
    assert page.log.day() == []


def test_who_answers_is_told(page):
    told = page._status("ramen", SERVER, "http://a<b>/v1", "m")
    assert DRAWINGS in told and "a&lt;b&gt;" in told and "<b>" not in told


@pytest.fixture
def address(page, monkeypatch):
    """The page as it is served, with nothing outside this machine to be reached."""
    connect = socket.socket.connect

    def only_here(self, place):
        assert place[0] in ("127.0.0.1", "localhost", "::1"), f"reaches for {place}"
        return connect(self, place)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    yield food_app.launch(page.blocks)
    page.blocks.close()


@pytest.mark.slow
def test_twenty_sessions_at_once_do_not_mix(address, page, tmp_path):
    def session(number):
        size = (10 + number, 40, 3)
        path = file_of(tmp_path, np.full(size, number, np.uint8), f"{number}.png")
        client = gradio_client.Client(address, verbose=False)
        said = []
        for grams in (100 + number, 200 + number):
            question = f"How many kcal are in {grams} g of this?"
            file = gradio_client.handle_file(path)
            model = "pizza" if number % 2 else "ramen"
            rest = (NOBODY, "", "", "")
            said.append(client.predict(file, question, model, *rest, api_name="/ask"))
        return number, text(said[0][0]), text(said[1][0])

    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        for number, first, second in pool.map(session, range(SESSIONS)):
            food = "pizza" if number % 2 else "ramen"
            assert f"in {100 + number} g of {food}." in first
            for grams in (100 + number, 200 + number):
                assert f"in {grams} g of {food}." in second, "its own past"
            assert len(re.findall("There are", second)) == 2, "and nobody else's"
            assert set(re.findall(r"in 40 x (\d+)", second)) == {str(10 + number)}
    assert address.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_the_page_is_of_this_machine_alone(address, page):
    config = page.blocks.config
    assert config["analytics_enabled"] is False and not config.get("is_space")
    styles = page.blocks.theme_css + page.blocks.css
    outside = re.findall(r"""@import|url\(["']?(?:https?:|//)""", styles)
    assert not outside, "no outside fonts"
    port = int(address.rsplit(":", 1)[1].strip("/"))
    mine = socket.gethostbyname_ex(socket.gethostname())[2]
    for place in (place for place in mine if not place.startswith("127.")):
        with socket.socket() as probe:
            assert probe.bind((place, port)) is None, "only localhost is listened at"


def test_without_gradio_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[app\]'"):
        food_app.app({})


def test_an_old_gradio_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.50.0")
    with pytest.raises(ImportError, match="needs gradio 6, here is 5.50.0"):
        food_app.app({})


def test_examples_are_drawn():
    pictures = food_app.drawn(3).values()
    assert [picture.shape for picture in pictures] == [(48, 48, 3)] * 3


def test_two_models_stand_in_the_order_given_in_a_notebook():
    told = {"one": [Event("answer", "1")], "two": [Event("answer", "2")]}
    html = meal_view.beside_html(GREY, "A grey plate", told)
    heads = re.findall("<th[^>]*>(.*?)</th>", html)
    cells = re.findall("<td[^>]*>.*?<span>(.*?)</span>.*?</td>", html)
    assert heads == ["one", "two"] and cells == ["1", "2"]
    assert html.index('alt="A grey plate"') < html.index("<table")


def test_what_models_say_is_escaped_in_a_notebook():
    nasty = "<script>alert(1)</script>"
    call = Call(nasty, {nasty: nasty})
    portion = {"food": nasty, "grams": 1} | dict.fromkeys(NUTRIENTS, 1.0)
    for html in (
        *(
            meal_view.event_html(Event(kind, nasty, call, {nasty: nasty}))
            for kind in ("said", "call", "result", "answer", "error")
        ),
        meal_view.event_html(Event("result", result={"error": nasty})),
        meal_view.table_html([portion, portion], nasty),
        meal_view.picture_html(GREY, '">' + nasty),
        meal_view.beside_html(GREY, nasty, {nasty: [Event("answer", nasty)]}),
    ):
        assert "<script" not in html
    long = meal_view.event_html(Event("said", "x" * 10_000))
    assert len(long) < 2_200


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


def test_a_week_is_drawn_as_it_was_eaten():
    fig, alt = meal_view.week({"2026-11-22": 0.0, "2026-11-23": 804.0, "2026-11-24": 2})
    assert [bar.get_height() for bar in fig.axes[0].patches] == [0, 804, 2]
    assert alt == "Bars of kcal a day: Sun 22 0, Mon 23 804, Tue 24 2."
    assert "403 kcal a day" in fig.axes[0].get_title("left"), "of the days with meals"
    assert "nothing yet" in meal_view.week({"2026-11-23": 0})[0].axes[0].get_title(
        "left"
    )


def test_the_picture_of_the_app_shows_what_the_shipped_student_does():
    """Its words are those of a conversation that is held anew."""
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    student = local_model.LocalModel(model, tokenizer, nutrition.TINY, "student")
    row = food_app.example_rows()[0]
    question = food_questions.ONE_FOOD[0].format(food_page.GRAMS)
    events = list(converse(student, question, row["image"], [nutrition.TOOL]))
    assert [event.kind for event in events] == ["call", "result", "answer"]
    html, alt = meal_view.app_picture()
    spoken = food_chat.sentence(events)
    for said in (question, *row["foods"], next(iter(STUDENTS)), spoken):
        assert said in alt
    for name in NUTRIENTS:
        assert meal_view.amount(name, events[1].result[name]) in alt
    size = Image.open(meal_view.APP_PICTURE).size
    assert size[0] == 2 * meal_view.APP_WIDTH and len(html) < 200_000
