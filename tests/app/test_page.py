"""The assistant's page: what it answers, shows, logs and refuses, for many at once."""

import concurrent.futures
import datetime
import html
import io
import re
import socket
import threading
import time

import gradio_client
import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers.app import meal_log, models
from helpers.app import page as app_page
from helpers.app.chat import BackendError, Event
from helpers.app.models import DRAWINGS, Choice
from helpers.app.page import QUESTION
from helpers.tools.calls import Call
from helpers.tools.nutrition import lookup_nutrition

gradio = pytest.importorskip("gradio")
GREY = np.full((20, 30, 3), 128, np.uint8)
PIZZA, RAMEN = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)


class Blind(Scripted):
    """One that does not answer at all."""

    def begin(self, question, picture):
        raise BackendError("It cannot see: choose another model.")


def scripted(food, kind=Scripted, **known):
    return Choice(lambda: kind(f"sees {food}", food), "scripted", **known)


@pytest.fixture
def page(tmp_path):
    choices = {
        "pizza": scripted("pizza"),
        "ramen": scripted("ramen", seen=DRAWINGS),
        "nothing": scripted(None),
        "blind": scripted("pizza", Blind),
        "away": models.on_server("http://127.0.0.1:9/v1", "big", "secret"),
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return app_page.Page(choices, log, [GREY])


def file_of(folder, picture, name="a.png"):
    Image.fromarray(picture).save(folder / name)
    return str(folder / name)


def steps(page, path, pick, past=()):
    """All that `ask` yields: (chat, past, meal)."""
    return list(page.ask(past, path, QUESTION, pick))


def text(html):
    return re.sub("<[^>]*>", " ", html)


@pytest.fixture
def grey(tmp_path):
    return file_of(tmp_path, GREY)


def test_steps_come_one_by_one_and_stay(page, grey):
    yielded = steps(page, grey, "pizza")
    folds = [chat.count("<details") for chat, *_ in yielded]
    assert folds == [0, 1, 2, 2, 2], "nothing, text, call, its result, answer"
    opened = ["<details class='food-step' open>" in chat for chat, *_ in yielded]
    assert opened == [False, False, True, False, False]
    shown = [meal["portions"] for *_, meal in yielded]
    assert shown == [[], [], [], [PIZZA], [PIZZA]]
    chat, past, meal = yielded[-1]
    for words in ("I see pizza in", "Looked up 150 g of pizza", "kcal 402"):
        assert words in chat
    assert "lookup_nutrition(food=&#x27;pizza&#x27;, grams=150)" in chat
    assert "There are 402 kcal in 150 g of pizza." in chat
    assert meal == {"portions": [PIZZA], "model": "pizza", "why": ""}
    assert len(past) == 2 and 'alt="Your plate"' in chat
    chat, *_ = steps(page, grey, "ramen", past)[-1]
    assert chat.index("of pizza.") < chat.index("of ramen."), "one below the other"


def test_a_photo_to_a_model_of_drawings_has_a_notice_and_needs_a_yes(
    page, tmp_path, grey
):
    photo = file_of(tmp_path, np.zeros((10, 50, 3), np.uint8), "photo.png")
    first, *_, (chat, _, meal) = steps(page, photo, "ramen")
    assert DRAWINGS in text(first[0]), "before it answers"
    assert "role='alert'" in chat and meal["portions"]
    with pytest.raises(ValueError, match="never seen a photo"):
        page.log_meal(meal, False, [150])
    assert page.log.day() == []
    page.log_meal(meal, True, [300])
    assert page.log.day()[0].portion["grams"] == 300
    chat, _, meal = steps(page, grey, "ramen")[-1]
    assert "alert" not in chat and meal["why"] == "", "grey is one of its drawings"
    chat, _, meal = steps(page, photo, "pizza")[-1]
    assert "alert" not in chat and meal["why"] == ""


def test_a_model_that_fails_is_an_error_and_another_answers(page, grey):
    chat, past, meal = steps(page, grey, "blind")[-1]
    assert "choose another" in chat and not meal["portions"]
    chat, *_ = steps(page, grey, "pizza", past)[-1]
    assert "choose another" in chat and "of pizza" in chat
    chat, _, meal = steps(page, grey, "away")[-1]
    assert "Start the server" in chat and "secret" not in chat and not meal["portions"]


def test_a_file_that_is_no_photo_is_refused(page, tmp_path):
    large = io.BytesIO()
    Image.new("1", (9000, 9000)).save(large, "PNG")
    for content, reason in (
        (b"<svg onload=alert(1)>", "not a picture"),
        (b"\x89PNG\r\n\x1a\n" + b"0" * 60, "broken or cut off|not a picture"),
        (large.getvalue(), "more than 50,000,000|too large"),
        (None, "take a photo first"),
    ):
        path = tmp_path / "file.png"
        path.write_bytes(content or b"")
        with pytest.raises(gradio.Error) as refused:
            steps(page, content and str(path), "pizza")
        assert re.search(reason, refused.value.message)


def test_a_table_of_two_foods_has_their_sum():
    table = app_page.meal_table([PIZZA, RAMEN])
    assert "pizza, 150 g | ramen, 100 g | total" in table
    first, second, both = map(int, re.findall(r"(\d+) kcal", table))
    assert (first, second) == (PIZZA["kcal"], RAMEN["kcal"]) and both == first + second


LOOKED_UP = Event("result", call=Call("lookup_nutrition"), result=PIZZA)
RIGHT, WRONG = ("There are 402 kcal in 150 g of pizza.", "kcal, but the table says")


@pytest.mark.parametrize(
    "events, answer, words",
    [
        ([LOOKED_UP], "#### 402", RIGHT),
        ([LOOKED_UP], "A pizza.\n#### 402 kcal", RIGHT),
        ([LOOKED_UP], "#### 1,402", f"I wrote 1,402 {WRONG} 402 kcal"),
        ([LOOKED_UP], "A pizza.\n#### 40 kcal", f"I wrote 40 {WRONG}"),
        ([], "#### 402", "My guess is 402 kcal. I did not look it up."),
        ([], "#### no food", "I see no food in this picture."),
        ([LOOKED_UP], "It is pizza, 402 kcal.", "It is pizza, 402 kcal."),
    ],
)
def test_an_answer_is_a_sentence(events, answer, words):
    sentence = app_page.sentence([*events, Event("answer", answer)])
    assert sentence.startswith(words) and "####" not in sentence


NASTY = "</p><script>alert(1)</script>{{#each value}}${alert(2)}"


@pytest.mark.parametrize("kind", ["text", "answer", "error", "call", "result"])
def test_what_models_write_is_text(kind):
    call = Call(NASTY, {NASTY: NASTY})
    shown = app_page.message([Event(kind, NASTY, call, {"error": NASTY})])
    shown += app_page.question_html(NASTY, np.zeros((4, 4, 3), np.uint8), NASTY)
    shown += app_page.alert(NASTY)
    tags = set(re.findall(r"<(\w+)", app_page.chat_html([shown])))
    assert tags <= {"details", "summary", "p", "b", "div", "img"}
    assert NASTY in html.unescape(shown)
    assert "${" not in shown and "{{" not in shown, "Gradio has templates, too"


def test_one_model_works_for_one_person_at_a_time():
    lock, at_once, most = threading.Lock(), [], []

    def pause():
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.pop()

    choice = Choice(lambda: Scripted("x", "pizza", pause), "here", lock=lock)

    def talk(_):
        return list(app_page.conversation(choice, "?", GREY))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(talk, range(4)))) == 4
    assert len(most) == 8 and set(most) == {1}


# The diary.


def diary(page):
    """The visible blocks of a page's diary, and what its controls do, in order."""
    with gradio.Blocks() as shown:
        page._diary(gradio.State(0))
    blocks = [b for b in shown.blocks.values() if getattr(b, "visible", True)]
    return blocks, [each.fn for each in shown.fns.values()]


def values(blocks, kind):
    return [block.value for block in blocks if isinstance(block, kind)]


def test_a_day_has_its_meals_and_their_sum(page):
    page.log.add([PIZZA], "the student")
    page.log.add([meal_log.scaled(RAMEN, 200)], "by hand")
    page.log.add([PIZZA], "x", time=datetime.datetime.now() - datetime.timedelta(1))
    blocks, (remove, _) = diary(page)
    _, first, second = values(blocks, gradio.HTML)
    assert "pizza, 150 g (the student)" in first and "ramen, 200 g" in second
    (table,) = values(blocks, gradio.Markdown)
    assert f"| kcal | {PIZZA['kcal'] + 2 * RAMEN['kcal']} kcal |" in table
    assert remove(8) == 9 and len(page.log.day()) == 1
    with pytest.raises(gradio.Error, match="deleted"):
        remove(9)


# The page as it is served.

SESSIONS = 8


@pytest.fixture
def served(tmp_path):
    choices = {
        name: Choice(lambda name=name: Scripted(name, name), "scripted")
        for name in ("pizza", "ramen")
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return app_page.app(choices, log=log)


@pytest.fixture
def address(served, monkeypatch):
    """The page as it is served, with nothing outside this machine to be reached."""
    connect = socket.socket.connect

    def only_here(self, place):
        assert place[0] in ("127.0.0.1", "localhost", "::1"), f"reaches for {place}"
        return connect(self, place)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    yield app_page.launch(served)
    served.close()


@pytest.mark.slow
def test_many_sessions_at_once_do_not_mix(address, tmp_path):
    def session(number):
        path = tmp_path / f"{number}.png"
        Image.fromarray(np.full((10 + number, 40, 3), number, np.uint8)).save(path)
        client = gradio_client.Client(address, verbose=False)
        answers = []
        for grams in (100 + number, 200 + number):
            question = f"How many kcal are in {grams} g of this?"
            file = gradio_client.handle_file(str(path))
            model = "pizza" if number % 2 else "ramen"
            answers.append(client.predict(file, question, model, api_name="/ask"))
        return number, *map(text, answers)

    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        for number, first, second in pool.map(session, range(SESSIONS)):
            food = "pizza" if number % 2 else "ramen"
            assert f"in {100 + number} g of {food}." in first
            for grams in (100 + number, 200 + number):
                assert f"in {grams} g of {food}." in second, "with its past"
            assert len(re.findall("There are", second)) == 2, "and nobody else's"
            assert set(re.findall(r"in 40 x (\d+)", second)) == {str(10 + number)}
    assert address.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_the_page_is_of_this_machine_alone(address, served):
    config = served.config
    assert config["analytics_enabled"] is False and not config.get("is_space")
    styles = served.theme_css + served.css
    assert ".food-answer" in styles, "the look of the page is there"
    outside = re.findall(r"""@import|url\(["']?(?:https?:|//)""", styles)
    assert not outside, "no outside fonts"
    port = int(address.rsplit(":", 1)[1].strip("/"))
    mine = socket.gethostbyname_ex(socket.gethostname())[2]
    for place in (place for place in mine if not place.startswith("127.")):
        with socket.socket() as probe:
            assert probe.bind((place, port)) is None, "only localhost is listened at"
