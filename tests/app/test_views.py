"""Events as text, meals as tables and plots whose numbers are those of the meal."""

import numpy as np
from PIL import Image

from helpers import runtime
from helpers.app import models, page, views
from helpers.app.chat import Event, converse
from helpers.model import weights
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.calls import Call

GREY = np.full((20, 30, 3), 128, np.uint8)


def test_what_models_say_is_escaped_in_a_notebook():
    nasty = "<script>alert(1)</script>"
    call = Call(nasty, {nasty: nasty})
    for html in (
        *(
            views.event_html(Event(kind, nasty, call, {nasty: nasty}))
            for kind in ("text", "call", "result", "answer", "error")
        ),
        views.event_html(Event("result", result={"error": nasty})),
        views.picture_html(GREY, '">' + nasty),
    ):
        assert "<script" not in html
    long = views.event_html(Event("text", "x" * 10_000))
    assert len(long) < 2_200


def test_the_picture_of_the_app_shows_what_the_shipped_student_does():
    """Its words are those of a new conversation."""
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    student = models.LocalModel(model, tokenizer, nutrition.TINY, "student")
    row = page.example_rows()[0]
    question = page.QUESTION
    events = list(converse(student, question, row["image"], [nutrition.TOOL]))
    assert [event.kind for event in events] == ["call", "result", "answer"]
    html, alt = views.app_picture()
    spoken = page.sentence(events)
    for words in (question, *row["foods"], next(iter(models.STUDENTS)), spoken):
        assert words in alt
    for row in views.table([("x", events[1].result)]).splitlines()[2:]:
        assert " ".join(row.replace("|", " ").split()) in alt
    size = Image.open(views.APP_PICTURE).size
    assert size[0] == 2 * views.APP_WIDTH and len(html) < 200_000
