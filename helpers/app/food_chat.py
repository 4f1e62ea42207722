"""What the food app says, as HTML: steps that fold, and an answer as a sentence.

All of it is text that a model, a server or a person has had a hand in, so all of it is
escaped, for HTML and for the templates of Gradio.
"""

import html
import re
import time
from typing import Any

from helpers.app import meal_log
from helpers.app.assistant import portions
from helpers.app.meal_view import call_text, picture_html, result_text, shortened, words
from helpers.rewards import food_rewards

NUMBER = re.compile(r"####\s*(\d[\d,]*(?:\.\d+)?)")
NOTICE = (
    "Please note: {} has seen {}. What it says of your picture is a guess, and nothing "
    "is logged unless you say yes."
)


class Watched:
    """A backend with a clock: `seconds` in its turns, without waiting for others.

    Args:
      backend: the model.
      lock: held in every turn, such as a threading.Lock where a model takes all cores.
    """

    def __init__(self, backend, lock):
        self.backend, self.lock, self.name = backend, lock, backend.name
        self.talk: Any = None  # the backend's conversation, once there is one
        self.seconds = 0.0

    def begin(self, question, picture):
        """See `helpers.app.assistant`."""
        self.talk = self._timed(self.backend.begin, question, picture)
        return self

    def next_turn(self):
        """As `begin`."""
        return self._timed(self.talk.next_turn)

    def append_results(self, verdict, results):
        """As `begin`."""
        self._timed(self.talk.append_results, verdict, results)

    def unsure(self, sure):
        """Whether the first turn had a smaller probability; False: it is not known."""
        certainty = getattr(self.talk, "certainty", None)
        return certainty is not None and certainty < sure

    def spent(self):
        """Time and tokens in words, "0.8 s, 19 tokens"."""
        tokens = getattr(self.talk, "tokens", None)
        told = "tokens not told" if tokens is None else f"{tokens} tokens"
        return f"{self.seconds:.1f} s, {told}"

    def _timed(self, run, *values):
        with self.lock:
            start = time.perf_counter()
            try:
                return run(*values)
            finally:
                self.seconds += time.perf_counter() - start


def escaped(text):
    """A text as it is read, with no letter that HTML or a template would act on."""
    whole = html.escape(shortened(str(text)), quote=True)
    return whole.replace("{", "&#123;").replace("$", "&#36;")


def alert(reason):
    """What went wrong, and what to do."""
    return f"<p class='food-alert' role='alert'>{escaped(reason)}</p>"


def asked(question, picture, name):
    """What a person asked, with the picture, and whom."""
    shown = "" if picture is None else picture_html(picture, "Your plate", width=110)
    who = f"<p class='food-spent'>to {escaped(name)}</p>"
    return f"<div class='food-asked'>{shown}<p>{escaped(question)}</p>{who}</div>"


def told(events, unsure=False, spent=""):
    """What has happened in a conversation so far.

    Args:
      events: of `assistant.converse`, in order.
      unsure: whether the model was in doubt.
      spent: time and tokens, below the answer.
    """
    parts = []
    for event in events:
        if event.kind == "said":
            parts.append(_step("Said first", event.text))
        elif event.kind == "call":
            parts.append(_step("Looks it up …", call_text(event.call), "open"))
        elif event.kind == "result" and event.call is not None:
            failed = "error" in event.result
            title = "The look-up failed" if failed else f"Looked up {_what([event])}"
            text = f"{call_text(event.call)}\n→ {result_text(event.result)}"
            parts[-1] = _step(title, text)
        elif event.kind == "result":
            parts.append(_step("A call that cannot be read", event.text))
        elif event.kind == "error":
            parts.append(alert(f"That did not work. {event.text}"))
        else:
            text = f"{'I am not sure. ' if unsure else ''}{sentence(events)}"
            parts.append(f"<p class='food-answer'>{escaped(text)}</p>")
    return "".join(parts) + (f"<p class='food-spent'>{spent}</p>" if spent else "")


def _step(title, text, is_open=""):
    return (
        f"<details class='food-step' {is_open}><summary>{escaped(title)}</summary>"
        f"<p>{escaped(text)}</p></details>"
    )


def sentence(events):
    """The answer, the last of the events, as a person would say it.

    Where the model's number is not the table's, both are said: it writes what it likes.
    """
    text, found = events[-1].text.strip(), portions(events)
    if text == food_rewards.NO_FOOD:
        return "I see no food in this picture."
    number = NUMBER.fullmatch(text)
    if number is None:
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
