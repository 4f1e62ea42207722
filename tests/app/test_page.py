"""The assistant's page: what it answers, shows, logs and refuses, for many at once."""

import concurrent.futures
import contextlib
import datetime
import html.parser
import io
import re
import socket
import sys
import threading

import gradio_client
import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers.app import meal_log, models
from helpers.app import page as app_page
from helpers.app.chat import BackendError, Event
from helpers.app.meal_log import MealLog
from helpers.app.models import DRAWINGS, Choice
from helpers.app.page import NOBODY, QUESTION
from helpers.tools.calls import Call, Verdict
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
    choices = {
        "pizza": scripted("pizza"),
        "ramen": scripted("ramen", seen=DRAWINGS),
        "nothing": scripted(None),
        "doubt": scripted("pizza", Doubtful, sure=0.5),
        "certain": scripted("pizza", Doubtful, sure=0.2),
        "missing": Choice(missing, "nowhere"),
        "away": models.on_server("http://127.0.0.1:9/v1", "big", "secret"),
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return app_page.Page(app_page._gradio(), choices, log, [GREY])


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


def test_a_photo_to_a_model_of_drawings_is_told_and_needs_a_yes(page, tmp_path, grey):
    photo = file_of(tmp_path, np.zeros((10, 50, 3), np.uint8), "photo.png")
    first, *_, (chat, _, _, meal) = steps(page, photo, "ramen")
    assert DRAWINGS in text(first[0]), "before it answers"
    assert "role='alert'" in chat and meal["found"]
    with pytest.raises(ValueError, match="seen no photo"):
        page.log_meal(meal, False, [150])
    assert page.log.day() == []
    page.log_meal(meal, True, [300])
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
        page.log_meal(meal, False, [150])
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


def test_a_table_of_two_foods_has_their_sum_and_a_plot():
    table, plot = app_page._drawn([PIZZA, RAMEN])
    assert "pizza, 150 g | ramen, 100 g | together" in table
    first, second, both = map(int, re.findall(r"(\d+) kcal", table))
    assert (first, second) == (PIZZA["kcal"], RAMEN["kcal"]) and both == first + second
    assert "together" not in app_page._drawn([PIZZA])[0]
    assert 'alt="Bars of the energy in this meal: carbohydrate' in plot


# Events and answers as HTML.


def looked_up(*results):
    events = []
    for result in results:
        given = {"food": result["food"], "grams": result["grams"]}
        call = Call("lookup_nutrition", given)
        events += [Event("call", call=call), Event("result", call=call, result=result)]
    return events


@pytest.mark.parametrize(
    "results, answer, said",
    [
        ([PIZZA], "#### 402", "There are 402 kcal in 150 g of pizza."),
        (
            [PIZZA],
            "#### 1,402",
            "I wrote 1,402 kcal, which is wrong: the table has 402",
        ),
        ([PIZZA], "#### 40", "I wrote 40 kcal, which is wrong"),
        ([], "#### 402", "I say 402 kcal, but I looked nothing up"),
        ([], "#### no food", "I see no food in this picture."),
        ([PIZZA], "It is pizza, 402 kcal.", "It is pizza, 402 kcal."),
    ],
)
def test_an_answer_is_a_sentence(results, answer, said):
    sentence = app_page.sentence([*looked_up(*results), Event("answer", answer)])
    assert sentence.startswith(said) and "####" not in sentence


class Seen(html.parser.HTMLParser):
    """The elements of a piece of HTML, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_step_is_open_until_its_result_is_there():
    events = [Event("said", "Pizza."), *looked_up(PIZZA), Event("answer", "#### 402")]
    said, call, result, answer = (
        Seen(app_page.message(events[: count + 1])) for count in range(4)
    )
    folds = [
        [attrs for tag, attrs in seen.tags if tag == "details"]
        for seen in (said, call, result, answer)
    ]
    assert [len(fold) for fold in folds] == [1, 1, 1, 0]
    assert ["open" in fold[0] for fold in folds[:3]] == [False, True, False]
    assert "lookup_nutrition(food='pizza', grams=150)" in call.text
    assert "Looked up 150 g of pizza" in result.text and "kcal 402" in result.text
    assert "402 kcal in" in answer.text and "Pizza." in said.text


@pytest.mark.parametrize("form", ["#### {}", "#### {} kcal", "A pizza.\n#### {}"])
def test_a_wrong_number_is_told_in_whatever_words_it_stands(form):
    wrong, right = (
        app_page.sentence([*looked_up(PIZZA), Event("answer", form.format(number))])
        for number in (999, 402)
    )
    assert "I wrote 999 kcal, which is wrong: the table has 402 kcal" in wrong
    assert right == "There are 402 kcal in 150 g of pizza."
    alone = app_page.sentence([Event("answer", form.format(402))])
    assert "I looked nothing up" in alone


NASTY = "</p><script>alert(1)</script>{{#each value}}${alert(2)}"


@pytest.mark.parametrize("kind", ["said", "answer", "error", "call", "result"])
def test_what_models_write_is_text(kind):
    call = Call(NASTY, {NASTY: NASTY})
    shown = app_page.message([Event(kind, NASTY, call, {"error": NASTY})])
    shown += app_page.question_html(NASTY, np.zeros((4, 4, 3), np.uint8), NASTY)
    shown += app_page.alert(NASTY)
    seen = Seen(app_page.chat_html([shown]))
    assert {tag for tag, _ in seen.tags} <= {"details", "summary", "p", "div", "img"}
    assert NASTY in seen.text
    assert "${" not in shown and "{{" not in shown, "Gradio has templates, too"


class Slow:
    """A model that takes its time in each turn, and looks up a pizza first."""

    name = "slow"

    def __init__(self, **known):
        self.told, self.known = [], known

    def begin(self, question, picture):
        for name, value in self.known.items():
            setattr(self, name, value)
        return self

    def next_turn(self):
        asked = {"food": "pizza", "grams": 150}
        if self.told:
            return Verdict(text="#### 402")
        return Verdict(calls=(Call("lookup_nutrition", asked),))

    def append_results(self, verdict, results):
        self.told += results


def talk(model, sure=0.0, lock=None):
    lock = lock or contextlib.nullcontext()
    choice = Choice(lambda: model, "here", sure=sure, lock=lock)
    return list(app_page.conversation(choice, "?", np.zeros((4, 4, 3), np.uint8)))


def test_a_conversation_grows_and_ends_with_what_was_found():
    told = talk(Slow(tokens=7))
    assert [found for _, found, _ in told] == [[], [], [PIZZA], [PIZZA]]
    assert [html.count("<details") for html, *_ in told] == [0, 1, 1, 1]
    spent = re.search(r"(\d+\.\d) s, 7 tokens", told[-1][0])
    assert spent
    assert "unknown tokens" in talk(Slow())[-1][0]


def test_doubt_is_below_the_threshold_and_not_at_it():
    assert talk(Slow(certainty=0.4), sure=0.5)[-1][2] == "It is not sure."
    assert talk(Slow(certainty=0.4), sure=0.4)[-1][2] == ""
    assert talk(Slow(), sure=1.0)[-1][2] == "", "nothing is known of a server's"


def test_one_model_works_for_one_person_at_a_time():
    lock, at_once, most = threading.Lock(), [], []

    class Watched(Slow):
        def next_turn(self):
            at_once.append(self)
            most.append(len(at_once))
            verdict = super().next_turn()
            at_once.remove(self)
            return verdict

    threads = [
        threading.Thread(target=talk, args=(Watched(),), kwargs={"lock": lock})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8 and set(most) == {1}


# The diary.


@pytest.fixture
def log(tmp_path):
    return MealLog(tmp_path / "meals.sqlite")


def shown(log):
    """What stands on the page, and what its controls do, in order."""
    with gradio.Blocks() as page:
        shown = app_page.Page.__new__(app_page.Page)
        shown.gr, shown.log = gradio, log
        shown._diary(gradio.State(0))
    blocks = [b for b in page.blocks.values() if getattr(b, "visible", True)]
    return blocks, [each.fn for each in page.fns.values()]


def values(blocks, kind):
    return [block.value for block in blocks if isinstance(block, kind)]


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
        said = []
        for grams in (100 + number, 200 + number):
            question = f"How many kcal are in {grams} g of this?"
            file = gradio_client.handle_file(str(path))
            model = "pizza" if number % 2 else "ramen"
            said.append(client.predict(file, question, model, NOBODY, api_name="/ask"))
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
def test_the_page_is_of_this_machine_alone(address, served):
    config = served.config
    assert config["analytics_enabled"] is False and not config.get("is_space")
    styles = served.theme_css + served.css
    assert ".food-answer" in styles, "the page's own look is there"
    outside = re.findall(r"""@import|url\(["']?(?:https?:|//)""", styles)
    assert not outside, "no outside fonts"
    port = int(address.rsplit(":", 1)[1].strip("/"))
    mine = socket.gethostbyname_ex(socket.gethostname())[2]
    for place in (place for place in mine if not place.startswith("127.")):
        with socket.socket() as probe:
            assert probe.bind((place, port)) is None, "only localhost is listened at"


def test_without_gradio_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match=r"pip install -U 'gradio>=6\.0'"):
        app_page.app({})
