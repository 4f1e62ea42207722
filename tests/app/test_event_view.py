"""What notebook 14 shows of the app: events as text, and a picture that is true."""

import re

import numpy as np
from PIL import Image

from helpers import runtime
from helpers.app import (
    event_view,
    food_app,
    food_chat,
    food_page,
    local_model,
    meal_view,
)
from helpers.app.assistant import Event, converse
from helpers.app.food_models import STUDENTS
from helpers.model import weights
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.calls import Call

GREY = np.full((20, 30, 3), 128, np.uint8)


def test_two_models_stand_in_the_order_given_in_a_notebook():
    told = {"one": [Event("answer", "1")], "two": [Event("answer", "2")]}
    html = event_view.beside_html(GREY, "A grey plate", told)
    heads = re.findall("<th[^>]*>(.*?)</th>", html)
    cells = re.findall("<td[^>]*>.*?<span>(.*?)</span>.*?</td>", html)
    assert heads == ["one", "two"] and cells == ["1", "2"]
    assert html.index('alt="A grey plate"') < html.index("<table")


def test_what_models_say_is_escaped_in_a_notebook():
    nasty = "<script>alert(1)</script>"
    call = Call(nasty, {nasty: nasty})
    for html in (
        *(
            event_view.event_html(Event(kind, nasty, call, {nasty: nasty}))
            for kind in ("said", "call", "result", "answer", "error")
        ),
        event_view.event_html(Event("result", result={"error": nasty})),
        event_view.picture_html(GREY, '">' + nasty),
        event_view.beside_html(GREY, nasty, {nasty: [Event("answer", nasty)]}),
    ):
        assert "<script" not in html
    long = event_view.event_html(Event("said", "x" * 10_000))
    assert len(long) < 2_200


def test_the_picture_of_the_app_shows_what_the_shipped_student_does():
    """Its words are those of a conversation that is held anew."""
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    student = local_model.LocalModel(model, tokenizer, nutrition.TINY, "student")
    row = food_app.example_rows()[0]
    question = food_page.QUESTION
    events = list(converse(student, question, row["image"], [nutrition.TOOL]))
    assert [event.kind for event in events] == ["call", "result", "answer"]
    html, alt = event_view.app_picture()
    spoken = food_chat.sentence(events)
    for said in (question, *row["foods"], next(iter(STUDENTS)), spoken):
        assert said in alt
    for row in meal_view.table([("x", events[1].result)]).splitlines()[2:]:
        assert " ".join(row.replace("|", " ").split()) in alt
    size = Image.open(event_view.APP_PICTURE).size
    assert size[0] == 2 * event_view.APP_WIDTH and len(html) < 200_000
