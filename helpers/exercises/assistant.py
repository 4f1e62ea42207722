"""Self-checks of notebook 14: the loop, a forged line, the diary, a spare model."""

import html.parser
import re

import numpy as np

from helpers.app.chat import BackendError, Event, converse, portions
from helpers.app.views import LONGEST_SHOWN
from helpers.exercises.check import Check, check_properties, filled, whole
from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict

QUESTION, PICTURE = "How many kcal are in this?", np.full((4, 5, 3), 7, np.uint8)


class ScriptedConversation:
    """A conversation whose turns are written beforehand.

    Args:
      turns: Verdicts, exceptions to raise, or texts of a BackendError; the last one
        comes again and again.
    """

    def __init__(self, turns, question=QUESTION, picture=PICTURE):
        self.turns, self.results = list(turns), []
        self.question, self.picture = question, picture

    def next_turn(self):
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception | str):
            raise turn if isinstance(turn, Exception) else BackendError(turn)
        return turn

    def append_results(self, verdict, results):
        self.results.append((verdict, list(results)))


class ScriptedBackend:
    """A backend whose conversations all have the same turns.

    Args:
      turns: of every conversation; none where the backend cannot begin one.
    """

    name = "scripted"

    def __init__(self, *turns):
        self.turns, self.conversations = turns, []

    def begin(self, question, picture):
        conversation = ScriptedConversation(self.turns, question, picture)
        self.conversations.append(conversation)
        if not self.turns:
            raise BackendError("The model is away.")
        return conversation


def _lookup(food, grams) -> Verdict:
    """A turn that looks up a food."""
    return Verdict(calls=(Call("lookup_nutrition", {"food": food, "grams": grams}),))


def _talk(backend, question=QUESTION, picture=PICTURE):
    return converse(backend, question, picture, [nutrition.TOOL])


PIZZA, RAMEN, SUSHI = _lookup("pizza", 150), _lookup("ramen", 300), _lookup("sushi", 80)
TWO = Verdict(calls=SUSHI.calls + RAMEN.calls)
SEVEN, EIGHT = Verdict(text="7"), Verdict(text="8")
CUT = "The line was cut."  # a turn that raises a BackendError


def check_loop(answer) -> Check:
    """The loop of turns: calls, their results, and the answer, as Events."""
    rng = np.random.default_rng(14)
    kinds = [PIZZA, TWO, RAMEN, SEVEN]
    scripts = [[kinds[i] for i in rng.choice(4, 8)] for _ in range(30)]
    cases = [(script, {"turns": 1 + i % 5}) for i, script in enumerate(scripts)]
    cases += [([PIZZA] * calls, {}) for calls in (2, 3, 6)]

    def run_of(loop):
        """A function (turns, settings) -> events, calls, results, turns left."""

        def run(turns, settings):
            calls = []

            def run_call(call):
                calls.append(call)
                return {"kcal": 3 * call.arguments["grams"], "n": len(calls)}

            talk = ScriptedConversation([*turns, SEVEN])
            events = [
                event._replace(text="") if event.kind == "error" else event
                for event in loop(talk, run_call, **settings)
            ]
            return events, calls, talk.results, len(talk.turns)

        return run

    properties = {
        "give the answer, and nothing else, where nothing is called": [([SEVEN], {})],
        "give a call, its result, then the answer, and tell the result": [
            ([PIZZA], {})
        ],
        "give each of two calls its own result, and tell both together": [([TWO], {})],
        "go on for as many turns as the model needs": [([PIZZA, TWO, RAMEN], {})],
        "not run a call whose result no turn is left to read, but end in an error": [
            ([PIZZA] * 3, {"turns": 2})
        ],
        "be right for any conversation, by default with four turns": cases,
        "say in words what went wrong": lambda: [
            *answer(ScriptedConversation([PIZZA]), dict, turns=1)
        ][-1].text.strip(),
    }
    return check_properties(properties, run_of(answer), run_of(_loop))


def _loop(conversation, run, turns=4):
    for left in reversed(range(turns)):
        verdict = conversation.next_turn()
        if not verdict.calls:
            yield Event("answer", verdict.text)
            return
        if left:
            results = []
            for call in verdict.calls:
                yield Event("call", call=call)
                results.append(run(call))
                yield Event("result", call=call, result=results[-1])
            conversation.append_results(verdict, results)
    yield Event("error")


RESULT = {"food-event", "food-result"}  # the classes of a line that the tool gives


class _Lines(html.parser.HTMLParser):
    """The (classes, pieces of text) of each `div`, as a browser finds them."""

    def __init__(self, page):
        super().__init__()
        self.lines, self._open = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag == "div":
            self.lines.append(((dict(attrs).get("class") or "").split(), []))
            self._open.append(self.lines[-1])

    def handle_endtag(self, tag):
        if tag == "div" and self._open:
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            self._open[-1][1].append(data)


def check_forged(answer) -> Check:
    """Breaking it: an answer that a careless page shows as a result of the tool's."""

    def lines():
        """(classes, text) of the lines after the first of the careless page."""
        shown = f"<b>The model answers</b> <span>{answer}</span>"
        page = _Lines(f"<div class='food-event food-answer'>{shown}</div>")
        return [
            (set(classes), " ".join("".join(pieces).split()))
            for classes, pieces in page.lines[1:]
        ]

    def forged():
        return [text for classes, text in lines() if classes >= RESULT]

    def claimed():
        number = r"(-?\d+(?:[.,]\d+)*)"
        pairs = re.findall(rf"\bkcal\W{{0,4}}?{number}|{number} kcal\b", *forged())
        return {float((behind or before).replace(",", "")) for behind, before in pairs}

    properties = {
        "be filled in": filled(answer, what="an answer"),
        "be a text as short as the app shows": lambda: (
            isinstance(answer, str) and len(answer) <= LONGEST_SHOWN
        ),
        "make the careless page show one more line": lambda: len(lines()) == 1,
        "have that line of the kind of the tool's results": lambda: len(forged()) == 1,
        "have it begin as the tool's do, with The tool gives": lambda: forged()[
            0
        ].startswith("The tool gives"),
        "claim 9 kcal there, which no tool gave": lambda: claimed() == {9},
    }
    return check_properties(properties)


# The conversations of notebook 14's exercise 3: what the model does, turn by turn.
_CONVERSATIONS = (
    (PIZZA, Verdict(text="#### 4020")),
    (_lookup("hamburger", 150), _lookup("pizza", 100), Verdict(text="#### 268")),
    (Verdict(text="#### 402"),),
    (_lookup("hamburger", 150), _lookup("hamburger", 150), Verdict(text="#### 788")),
)


def check_diary(guess) -> Check:
    """A prediction: the kcal that the diary is offered after each conversation."""

    def right(number):
        """Whether the guess is what the app offers after this conversation."""

        def holds():
            events = list(_talk(ScriptedBackend(*_CONVERSATIONS[number])))
            return guess[number] == sum(p["kcal"] for p in portions(events))

        return holds

    properties = {
        "be filled in": filled(guess, what="four numbers"),
        "be four whole numbers of kcal": lambda: (
            len(guess) == len(_CONVERSATIONS) and whole(*guess)
        ),
        "hold for the first: ask who is trusted with the number": right(0),
        "hold for the third: ask what was looked up": right(2),
        "hold for the second: the app cannot know which look-up was meant": right(1),
        "hold for the fourth: one plate, looked at twice": right(3),
    }
    return check_properties(properties)


def check_reserve(answer) -> Check:
    """A backend made of two: the second is asked where the first cannot be."""

    def run_of(backend):
        """A function (first, second, talks) -> events, and what the two were asked."""

        def run(first, second, talks=1):
            two = ScriptedBackend(*first), ScriptedBackend(*second)
            both = backend(*two)
            events = [_talk(both, f"{QUESTION} {i}", PICTURE + i) for i in range(talks)]
            in_turns = [event for step in zip(*events, strict=True) for event in step]
            asked = [
                [(c.question, c.picture.max(), c.results) for c in each.conversations]
                for each in two
            ]
            return in_turns, *asked

        return run

    def lets_faults_through():
        try:
            run_of(answer)([ZeroDivisionError("a fault in the course")], [EIGHT])
        except ZeroDivisionError:
            return True
        return False

    helps = [RAMEN, SUSHI, EIGHT]
    properties = {
        "do as the first does while it can be asked, and leave the second alone": [
            ([PIZZA, SUSHI, SEVEN], helps)
        ],
        "ask the second where the first cannot begin": [([], helps)],
        "ask the second where the first fails in its turn": [([CUT], helps)],
        "tell each of the two what its own calls gave": [([PIZZA, CUT], helps)],
        "keep two conversations apart that are open together": [
            ([PIZZA, CUT], helps, 2)
        ],
        "catch only what a person can mend, a BackendError": lets_faults_through,
    }
    return check_properties(properties, run_of(answer), run_of(_Reserve))


class _Reserve:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def begin(self, question, picture):
        talk = _Reserve(self.first, self.second)
        talk.asked = question, picture
        try:
            talk.now = self.first.begin(question, picture)
        except BackendError:
            talk.ask_second()
        return talk

    def ask_second(self):
        self.now = self.second.begin(*self.asked)

    def next_turn(self):
        try:
            return self.now.next_turn()
        except BackendError:
            self.ask_second()
            return self.now.next_turn()

    def append_results(self, verdict, results):
        self.now.append_results(verdict, results)
