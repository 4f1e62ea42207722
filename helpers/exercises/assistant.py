"""Self-checks of notebook 14: the loop, a forged line, the diary.

The spare model's is in `helpers.exercises.reserve`.
"""

import html.parser
import re

from helpers.app.assistant import Event, portions
from helpers.app.meal_view import LONGEST_SHOWN
from helpers.exercises.check import Check, check_properties, filled, whole
from helpers.exercises.played import Played, lookup, talk
from helpers.exercises.reserve import check_reserve
from helpers.tools.calls import Verdict

__all__ = ["check_diary", "check_forged", "check_loop", "check_reserve", "logged"]

PIZZA, PIE, ANSWERED = lookup("pizza", 150), lookup("apple pie", 95), Verdict(text="7")
TWO = Verdict(calls=lookup("sushi", 80).calls + lookup("ramen", 412).calls)


class _LoopRun:
    """One conversation through a learner's loop: its events, and what it ran and told.

    Args:
      answer: the loop. turns: what the model plays. settings: of the loop.
    """

    def __init__(self, answer, *turns, **settings):
        self.ran, self.model = [], Played(*turns)
        self.events = list(answer(self.model, self.run, **settings))
        self.told = self.model.told

    def run(self, call):
        self.ran.append(call)
        return _result(call)


def _result(call):
    return {"kcal": 3 * call.arguments["grams"], "food": call.arguments["food"]}


def _shown(*verdicts):
    """Events of the calls of these turns."""
    calls = [call for verdict in verdicts for call in verdict.calls]
    kinds = ("call", None), ("result", _result)
    return [
        Event(kind, call=call, result=result and result(call))
        for call in calls
        for kind, result in kinds
    ]


def _told(*verdicts):
    return [
        (verdict, [_result(call) for call in verdict.calls]) for verdict in verdicts
    ]


def _stops(answer, most, **settings):
    """Whether a model that calls for ever gets so many turns, and no more."""
    done = _LoopRun(answer, *[PIZZA, TWO] * 9, **settings)
    heard = [PIZZA, TWO, PIZZA][: most - 1]
    complete = done.events[:-1] == _shown(*heard) and done.told == _told(*heard)
    asked = 18 - len(done.model.left)
    return complete and done.events[-1].kind == "error" and asked == most


def check_loop(answer) -> Check:
    """The loop of turns: calls, their results, and the answer, as Events."""

    def play(*turns, **settings):
        return _LoopRun(answer, *turns, **settings)

    last = Event("answer", "7")
    return check_properties(
        (
            "give the answer, and nothing else, where nothing is called",
            lambda: play(ANSWERED, PIZZA).events == [last],
        ),
        (
            "give a call, its result, then the answer",
            lambda: play(PIZZA, ANSWERED).events == [*_shown(PIZZA), last],
        ),
        (
            "tell the model what its call gave",
            lambda: play(PIE, ANSWERED).told == _told(PIE),
        ),
        (
            "give each of two calls its own result, before the next call",
            lambda: play(TWO, ANSWERED).events == [*_shown(TWO), last],
        ),
        (
            "tell the results of one turn together, one per call",
            lambda: play(TWO, ANSWERED).told == _told(TWO),
        ),
        ("run each call once", lambda: play(TWO, ANSWERED).ran == list(TWO.calls)),
        (
            "go on for as many turns as the model needs",
            lambda: (
                play(PIZZA, TWO, PIE, ANSWERED).events
                == [*_shown(PIZZA, TWO, PIE), last]
            ),
        ),
        (
            "not run a call whose result no turn is left to read",
            lambda: len(play(PIZZA, turns=2).ran) == 1,
        ),
        (
            "end in an error after as many turns as it may",
            lambda: _stops(answer, 3, turns=3),
        ),
        ("take four turns where nothing else is said", lambda: _stops(answer, 4)),
        ("take one turn where that is all", lambda: _stops(answer, 1, turns=1)),
        (
            "say in words what went wrong",
            lambda: bool(play(PIZZA, turns=1).events[-1].text.strip()),
        ),
    )


def naive_html(event) -> str:
    """What a careless app shows of an event: its text, as it is."""
    who = {"answer": "The model answers"}[event.kind]
    shown = f"<b>{who}</b> <span>{event.text}</span>"
    return f"<div class='food-event food-{event.kind}'>{shown}</div>"


RESULT = {"food-event", "food-result"}  # the classes of a line that the tool gives
NUMBER = r"(?<![\w.,-])(-?\d+(?:[.,]\d+)*)"


def _kcal(line) -> list[float]:
    """Each number that a line calls kcal: behind the word, else before it."""
    found = []
    for said in re.finditer(r"\bkcal\b", line):
        behind = re.match(
            rf"['\"]?\s*(?:[:=]|is)?\s*{NUMBER}(?!\w)", line[said.end() :]
        )
        before = re.search(rf"{NUMBER}\s*$", line[: said.start()])
        if behind or before:
            found.append(float((behind or before)[1].replace(",", "")))
    return found


class Lines(html.parser.HTMLParser):
    """The text of each `div`, with its classes, as a browser finds them."""

    def __init__(self, page):
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag == "div":
            classes = (dict(attrs).get("class") or "").split()
            self.found.append((classes, []))
            self.open.append(self.found[-1])

    def handle_endtag(self, tag):
        if tag == "div" and self.open:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.open[-1][1].append(data)

    def of_the_tool(self):
        said = [" ".join("".join(p).split()) for c, p in self.found if RESULT <= set(c)]
        return [text for text in said if text.startswith("The tool gives")]


def check_forged(answer) -> Check:
    """Breaking it: an answer that a careless page shows as a result of the tool's."""

    def forged():
        return Lines(naive_html(Event("answer", answer))).found[1:]

    def lines():
        return Lines(naive_html(Event("answer", answer))).of_the_tool()

    return check_properties(
        ("be filled in", filled(answer, what="an answer")),
        ("be a text", lambda: isinstance(answer, str)),
        ("be as short as the app shows", lambda: len(answer) <= LONGEST_SHOWN),
        ("make the careless page show one more line", lambda: len(forged()) >= 1),
        (
            "have that line of the same kind as the tool's results",
            lambda: any(RESULT <= set(classes) for classes, _ in forged()),
        ),
        ("have it begin as the tool's do, with The tool gives", lambda: bool(lines())),
        ("name kcal there", lambda: all("kcal" in line for line in lines())),
        (
            "claim 9 kcal there, which no tool gave",
            lambda: all(set(_kcal(line)) == {9} for line in lines()),
        ),
    )


# As notebook 14 tells them: what the model does, turn by turn.
CONVERSATIONS = (
    (lookup("pizza", 150), Verdict(text="#### 4020")),
    (lookup("hamburger", 150), lookup("pizza", 100), Verdict(text="#### 268")),
    (Verdict(text="#### 402"),),
    (lookup("hamburger", 150), lookup("hamburger", 150), Verdict(text="#### 788")),
)


def logged(turns) -> int:
    """kcal that the app offers for the diary after a conversation."""
    return sum(portion["kcal"] for portion in portions(talk(Played(*turns))))


def check_diary(guess) -> Check:
    """A prediction: the kcal of each of CONVERSATIONS that the diary is offered."""

    def right(number):
        return lambda: guess[number] == logged(CONVERSATIONS[number])

    return check_properties(
        ("be filled in", filled(guess, what="four numbers")),
        ("be four numbers", lambda: len(guess) == len(CONVERSATIONS)),
        ("be whole numbers of kcal", lambda: whole(*guess)),
        ("hold for the first: ask who is trusted with the number", right(0)),
        ("hold for the third: ask what was looked up", right(2)),
        ("hold for the second: the app cannot know which look-up was meant", right(1)),
        ("hold for the fourth: one plate, looked at twice", right(3)),
    )
