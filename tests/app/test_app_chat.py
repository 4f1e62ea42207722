"""One conversation, event by event: words, calls, answers, and goes wrong."""

import time

import toy_tools

from helpers.app import chat
from helpers.app.chat import BackendError, converse, portions
from helpers.tools.calls import Call, Verdict
from helpers.tools.nutrition import TOOL

PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 150})
RAMEN = Call("lookup_nutrition", {"food": "ramen", "grams": 100})
UNKNOWN = Call("lookup_nutrition", {"food": "moon dust", "grams": 1})


class Scripted:
    """A backend that speaks these verdicts in turn; what is an exception is raised."""

    name = "scripted"

    def __init__(self, *turns):
        self.turns, self.results = list(turns), []

    def begin(self, question, picture):
        return self

    def next_turn(self):
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def append_results(self, verdict, results):
        self.results.append(results)


def food_tool(run):
    return [toy_tools.make(TOOL.name, run, food="string", grams="number")]


def events(*turns, tools=(TOOL,)):
    return list(converse(Scripted(*turns), "?", None, tools))


def kinds(happened):
    return [event.kind for event in happened]


def test_events_come_while_they_happen():
    ran = []

    def tool(food, grams):
        ran.append(food)
        return {"food": food, "grams": 1}

    turn = Verdict(calls=(PIZZA, RAMEN), thought="Round, red.", text="Two.")
    backend = Scripted(turn, Verdict(text="Done"))
    going = converse(backend, "?", None, food_tool(tool))
    assert next(going).text == "Round, red.\nTwo."
    assert next(going).call == PIZZA and ran == []
    assert next(going).result == {"food": "pizza", "grams": 1} and ran == ["pizza"]
    assert kinds(going) == ["call", "result", "answer"]
    assert ran == ["pizza", "ramen"]
    assert backend.results == [[{"food": f, "grams": 1} for f in ("pizza", "ramen")]]


def test_a_malformed_call_is_an_error_and_it_goes_on():
    backend = Scripted(Verdict(error="no call"), Verdict(text="ok"))
    happened = list(converse(backend, "?", None, [TOOL]))
    assert kinds(happened) == ["result", "answer"]
    assert backend.results == [[{"error": "no call"}]]


def test_a_tool_that_raises_or_hangs_is_an_error_result(monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 0.2)

    def broken(food, grams):
        raise RuntimeError("out of order")

    def hangs(food, grams):
        time.sleep(2)

    for tool, cause in ((broken, "RuntimeError"), (hangs, "0.2 s")):
        _, result, last = events(
            Verdict(calls=(PIZZA,)), Verdict(text="x"), tools=food_tool(tool)
        )
        assert cause in result.result["error"] and last.kind == "answer"


def test_what_fails_ends_it_with_an_error():
    failure = BackendError("the cause, and the remedy")
    happened = events(Verdict(calls=(PIZZA,)), failure)
    assert kinds(happened) == ["call", "result", "error"]
    assert happened[-1].text == "the cause, and the remedy"
    assert kinds(events(failure)) == kinds(events(Verdict())) == ["error"]
    happened = events(*[Verdict(calls=(PIZZA,))] * chat.TURNS)
    assert kinds(happened) == ["call", "result"] * (chat.TURNS - 1) + ["error"]


def test_portions_are_what_was_looked_up_each_once():
    happened = events(
        Verdict(calls=(UNKNOWN, PIZZA)),
        Verdict(calls=(PIZZA, RAMEN)),
        Verdict(text="done"),
    )
    assert [p["food"] for p in portions(happened)] == ["pizza", "ramen"]
    assert portions(events(Verdict(text="#### no food"))) == []
