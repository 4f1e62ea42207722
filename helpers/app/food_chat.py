"""What the food app says: events as steps of a chat, an answer as a sentence.

A message is a dict of "role" and "content"; a step that folds has "metadata", too, as
Gradio's chat takes it. All of it is plain text: the page shows no letter as markup.
"""

import re
import time

from helpers.app import meal_log
from helpers.app.assistant import portions
from helpers.app.meal_view import call_text, result_text, shortened, words
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
        self.talk, self.seconds = None, 0.0

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
        known = "tokens not told" if tokens is None else f"{tokens} tokens"
        return f"{self.seconds:.1f} s, {known}"

    def _timed(self, run, *values):
        with self.lock:
            start = time.perf_counter()
            try:
                return run(*values)
            finally:
                self.seconds += time.perf_counter() - start


def said(text):
    """A message of the assistant's."""
    return {"role": "assistant", "content": text}


def failed(reason):
    """A message of what went wrong, and what to do."""
    return said(f"That did not work. {reason}")


def messages(events, unsure=False, spent=""):
    """The messages for what has happened in a conversation so far.

    Args:
      events: of `assistant.converse`, in order.
      unsure: whether the model was in doubt.
      spent: time and tokens, below the answer.
    """
    shown = []
    for event in events:
        if event.kind == "said":
            shown.append(_step("Said before looking anything up", event.text))
        elif event.kind == "call":
            shown.append(_step("Looks it up …", call_text(event.call), "pending"))
        elif event.kind == "result" and event.call is not None:
            failed = "error" in event.result
            text = f"{call_text(event.call)}\n→ {result_text(event.result)}"
            title = "The look-up failed" if failed else f"Looked up {_what([event])}"
            shown[-1] = _step(title, text)
        elif event.kind == "result":
            shown.append(_step("A call that cannot be read", event.text))
        else:
            text = shortened(sentence(events, unsure))
            shown.append(said("\n".join(filter(None, (text, spent)))))
    return shown


def _step(title, text, status="done"):
    return said(shortened(text)) | {"metadata": {"title": title, "status": status}}


def sentence(events, unsure=False):
    """The last event, an answer or an error, as a person would say it.

    Where the model's number is not the table's, both are said: it writes what it likes.
    """
    last = events[-1]
    if last.kind == "error":
        return failed(last.text)["content"]
    text = _answer(last.text.strip(), events)
    return f"I am not sure. {text}" if unsure else text


def _answer(text, events):
    if text == food_rewards.NO_FOOD:
        return "I see no food in this picture."
    number, found = NUMBER.fullmatch(text), portions(events)
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
