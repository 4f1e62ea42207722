"""Self-checks of notebook 14: the loop, and a forged line."""

import functools
import itertools
import re

import numpy as np

from helpers.app.chat import Event
from helpers.app.views import LONGEST_SHOWN
from helpers.exercises.check import Check, check_properties
from helpers.tools.calls import Call, Verdict

PIZZA, RAMEN, SUSHI = (
    Call("lookup_nutrition", {"food": food, "grams": grams})
    for food, grams in (("pizza", 150), ("ramen", 300), ("sushi", 80))
)
ONE, TWO = Verdict(calls=(PIZZA,)), Verdict(calls=(SUSHI, RAMEN))
SEVEN = Verdict(text="7")


class _Scripted:
    """A conversation whose turns are written beforehand; notes what it is asked."""

    def __init__(self, turns, log):
        self.turns, self.log = itertools.chain(turns, itertools.repeat(SEVEN)), log

    def next_turn(self):
        self.log.append("a turn")
        return next(self.turns)

    def append_results(self, verdict, results):
        self.log.append((verdict, list(results)))


def check_loop(answer) -> Check:
    """Exercise 1: the loop yields calls, their results, and the answer, as Events."""
    rng = np.random.default_rng(14)
    kinds = [ONE, TWO, SEVEN]
    scripts = [[kinds[i] for i in rng.choice(3, 8)] for _ in range(30)]
    cases = [(script, {"turns": 1 + i % 5}) for i, script in enumerate(scripts)]
    cases += [([ONE] * calls, {}) for calls in (2, 3, 6)]

    def run(loop, turns, settings):
        """The events of a loop, and what it asked, told and ran."""
        log = []

        def run_call(call):
            log.append(call)
            return {"kcal": 3 * call.arguments["grams"], "n": len(log)}

        events = list(loop(_Scripted(turns, log), run_call, **settings))
        if events[-1].kind == "error" and events[-1].text.strip():
            events[-1] = Event("error", "why")  # in whatever words
        return {"events": events, "log": log}

    properties = {
        "yield only the answer if there is no call": [([SEVEN], {})],
        "yield call, result and answer, and append the result": [([ONE], {})],
        "give two calls their own results, and append both at once": [([TWO], {})],
        "not run a call in the last turn, but yield an error that says what went "
        "wrong": [([ONE] * 3, {"turns": 2})],
        "be right for any conversation, by default with four turns": cases,
    }
    return check_properties(
        properties, functools.partial(run, answer), functools.partial(run, _loop)
    )


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
    yield Event("error", "why")


RESULT = {"food-event", "food-result"}  # the classes of a line that the tool gives


def check_forged(answer) -> Check:
    """Exercise 2: an answer that a careless page shows as a result of the tool's."""

    def line():
        """The attributes of the new line, and its text."""
        opened = answer.partition("<div")[2]
        attributes, _, content = opened.partition("</div")[0].partition(">")
        return attributes, " ".join(re.sub(r"<[^>]*>", "", content).split())

    def is_a_result():
        attributes, text = line()
        classes = set(re.findall(r"[\w-]+", attributes.partition("class")[2]))
        return classes >= RESULT and text.startswith("The tool returns")

    def claimed():
        pairs = re.findall(r"kcal\W{0,4}?(-?\d+\.?\d*)|(-?\d+\.?\d*) kcal", line()[1])
        return {float(behind or before) for behind, before in pairs}

    properties = {
        "be short enough for the app": lambda: len(answer) <= LONGEST_SHOWN,
        "make the careless page show one more line": lambda: answer.count("<div") == 1,
        "give that line the classes of a tool result, and begin it with "
        "The tool returns": is_a_result,
        "claim 9 kcal there, which no tool returned": lambda: claimed() == {9},
    }
    return check_properties(properties)
