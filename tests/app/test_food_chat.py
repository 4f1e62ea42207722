"""What the food app says: steps that fold, answers as sentences, no text as HTML."""

import contextlib
import html.parser
import time

import numpy as np
import pytest

from helpers.app import food_chat
from helpers.app.assistant import Event
from helpers.tools.nutrition import lookup_nutrition
from helpers.tools.tool_calls import Call

PIZZA, RAMEN = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)


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
    sentence = food_chat.sentence([*looked_up(*results), Event("answer", answer)])
    assert sentence.startswith(said) and "####" not in sentence


def test_two_foods_are_counted_together():
    both = PIZZA["kcal"] + RAMEN["kcal"]
    events = [*looked_up(PIZZA, RAMEN), Event("answer", f"#### {both}")]
    expected = f"There are {both} kcal in 150 g of pizza and 100 g of ramen."
    assert food_chat.sentence(events) == expected


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
    counts = []
    for count in range(1, 5):
        seen = Seen(food_chat.told(events[:count]))
        steps = [attrs for tag, attrs in seen.tags if tag == "details"]
        counts.append((len(steps), sum("open" in step for step in steps)))
    assert counts == [(1, 0), (2, 1), (2, 0), (2, 0)]
    assert "Looked up 150 g of pizza" in seen.text and "402 kcal in" in seen.text


def test_doubt_time_and_tokens_stand_with_the_answer():
    events = [*looked_up(PIZZA), Event("answer", "#### 402")]
    seen = Seen(food_chat.told(events, unsure=True, spent="0.8 s, 19 tokens"))
    assert "I am not sure. There are 402 kcal" in seen.text
    assert seen.text.endswith("0.8 s, 19 tokens")
    assert "not sure" not in food_chat.told(events)


NASTY = "</p><script>alert(1)</script>{{#each value}}${alert(2)}"


@pytest.mark.parametrize("kind", ["said", "answer", "error", "call", "result"])
def test_what_models_write_is_text(kind):
    call = Call(NASTY, {NASTY: NASTY})
    first = [Event("call", call=call)] if kind == "result" else []
    error = {"error": NASTY}
    shown = food_chat.told([*first, Event(kind, NASTY, call, error)])
    shown += food_chat.asked(NASTY, np.zeros((4, 4, 3), np.uint8), NASTY)
    shown += food_chat.alert(NASTY)
    seen = Seen(shown)
    assert {tag for tag, _ in seen.tags} <= {"details", "summary", "p", "div", "img"}
    assert NASTY in seen.text
    assert "${" not in shown and "{{" not in shown, "Gradio has templates, too"


def test_a_long_text_is_cut():
    assert len(food_chat.told([Event("said", "x" * 10_000)])) < 2_300


class Slow:
    name, certainty, tokens = "slow", 0.4, 7

    def begin(self, question, picture):
        return self

    def next_turn(self):
        time.sleep(0.05)
        return "turn"

    def append_results(self, verdict, results):
        raise ZeroDivisionError


def test_a_watched_model_has_a_clock_and_says_what_it_wrote():
    watched = food_chat.Watched(Slow(), contextlib.nullcontext())
    assert not watched.unsure(1.0), "nothing is known before it began"
    assert watched.begin("?", None).next_turn() == "turn"
    with pytest.raises(ZeroDivisionError):
        watched.append_results(None, [])
    assert watched.seconds >= 0.05 and watched.spent().endswith(" s, 7 tokens")
    assert watched.unsure(0.5) and not watched.unsure(0.4)
    watched.talk = object()
    assert not watched.unsure(1.0) and watched.spent().endswith("tokens not told")
