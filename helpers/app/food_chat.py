"""What the food app says, as HTML: a call is a step that folds, an answer a sentence.

All of it is text that a model, a server or a person has had a hand in, so all of it is
escaped, for HTML and for the templates of Gradio. Gradio's own chat is not used: its
steps are buttons in buttons without a name, which keep people out.
"""

import contextlib
import html
import re
import time
from typing import Any

from helpers.app import meal_log
from helpers.app.assistant import converse, portions
from helpers.app.event_view import picture_html
from helpers.app.meal_view import call_text, result_text, shortened, words
from helpers.rewards import food_rewards
from helpers.tools.nutrition import TOOL

# As `food_rewards` reads an answer, and with what a model may say around it.
NUMBER = re.compile(r"####\s*(\d[\d,]*(?:\.\d+)?)(?: ?kcal)?\.?")


class Asked:
    """The backend of a choice, made when it is asked.

    talk: its conversation, once there is one, which may know `tokens` and `certainty`.
    """

    def __init__(self, choice):
        self.choice, self.talk = choice, None

    def begin(self, question, picture):
        """See `helpers.app.assistant`."""
        self.talk = self.choice.make().begin(question, picture)
        return self.talk


def conversation(choice, question, picture):
    """Asks a model; its clock stands while it waits for others.

    Args:
      choice: a `food_models.Choice`. question, picture: see `assistant.converse`.
    Yields:
      Before and with each event: (what has happened so far, as HTML; the portions that
      were found; why they are in doubt, or "").
    """
    backend: Any = Asked(choice)
    events: list = []
    shown: list = []
    seconds = 0.0
    coming = converse(backend, question, picture, [TOOL])
    yield "<p>Looks at the plate …</p>", [], ""
    while not events or events[-1].kind not in ("answer", "error"):
        with choice.lock:
            start = time.perf_counter()
            events.append(next(coming))
            seconds += time.perf_counter() - start
        certainty = getattr(backend.talk, "certainty", None)
        tokens = getattr(backend.talk, "tokens", None)
        unsure = certainty is not None and certainty < choice.sure
        spent = f"{seconds:.1f} s, {'unknown' if tokens is None else tokens} tokens"
        if events[-1].kind == "result" and events[-1].call is not None:
            shown.pop()  # the call, which is told with its result
        shown.append(message(events, unsure, spent))
        yield "".join(shown), portions(events), "It is not sure." if unsure else ""


def message(events, unsure=False, spent=""):
    """The last of a conversation's events: a step that folds, or the end.

    Args:
      events: of `assistant.converse`, in order.
      unsure: whether the model is in doubt.
      spent: time and tokens, below the end.
    """
    event, found = events[-1], _what(events[-1:])
    if event.kind == "answer":
        doubt = "I am not sure. " if unsure else ""
        answer = escaped(doubt + sentence(events))
        return f"<p class='food-answer'>{answer}</p><p class='food-spent'>{spent}</p>"
    if event.kind == "error":
        return alert(f"That did not work. {event.text}")
    if event.kind == "said":
        return _step("Said first", event.text)
    call = call_text(event.call)
    if event.kind == "call":
        return _step("Looks it up …", call, "open")
    title = f"Looked up {found}" if found else "The look-up failed"
    return _step(title, f"{call}\n→ {result_text(event.result)}")


def escaped(text):
    """A text as it is read, with no letter that HTML or a template would act on."""
    return html.escape(shortened(text)).replace("{", "&#123;")


def alert(text):
    """What a person should know before going on."""
    return f"<p class='food-alert' role='alert'>{escaped(text)}</p>"


def asked(question, picture, name):
    """What a person asked, with the picture, and whom."""
    shown = picture_html(picture, "Your plate", width=110)
    whom = f"<p class='food-spent'>to {escaped(name)}</p>"
    return f"<div class='food-asked'>{shown}<p>{escaped(question)}</p>{whom}</div>"


def log(parts):
    """A chat: all that was asked and said, the newest below."""
    told = "".join(parts) or "<p>Every step of the model will stand here.</p>"
    return (
        f"<div class='food-chat' role='log' aria-label='Chat' tabindex=0>{told}</div>"
    )


def _step(title, text, is_open=""):
    head = f"<details class='food-step' {is_open}><summary>{escaped(title)}</summary>"
    return f"{head}<p>{escaped(text)}</p></details>"


def sentence(events):
    """The answer, the last of the events, as a person would say it.

    Where the model's number is not the table's, both are said: it writes what it likes.
    """
    text, found = events[-1].text.strip(), portions(events)
    if text == food_rewards.NO_FOOD:
        return "I see no food in this picture."
    if not (number := NUMBER.fullmatch(text.rpartition("\n")[2].strip())):
        return text
    if not found:
        return f"I say {number[1]} kcal, but I looked nothing up: do not rely on it."
    kcal = meal_log.total(found)["kcal"]
    if abs(float(number[1].replace(",", "")) - kcal) < 0.5:
        return f"There are {kcal:g} kcal in {_what(events)}."
    return (
        f"I wrote {number[1]} kcal, which is wrong: the table has {kcal:g} kcal for "
        f"{_what(events)}."
    )


def _what(events):
    found = portions(events)
    return " and ".join(f"{p['grams']:g} g of {words(p['food'])}" for p in found)


@contextlib.contextmanager
def noted(gradio):
    """What goes wrong for a person to mend becomes a note of Gradio's on the page."""
    try:
        yield
    except (ValueError, KeyError, meal_log.MealLogError) as error:
        note = html.escape(str(error.args[0]))
        raise gradio.Error(note, print_exception=False) from error
