"""Self-checks of notebook 14: the loop, a forged line, the diary."""

import functools
import re

import numpy as np

from helpers.app.chat import Event, converse, portions
from helpers.app.views import LONGEST_SHOWN
from helpers.exercises.check import Check, check_properties, filled, whole
from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict


class ScriptedConversation:
    """A conversation whose turns are written beforehand.

    Args:
      turns: Verdicts; the last one comes again and again.
    """

    def __init__(self, turns):
        self.turns, self.results = list(turns), []

    def next_turn(self):
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]

    def append_results(self, verdict, results):
        self.results.append((verdict, list(results)))


class ScriptedBackend:
    """A backend whose conversations all have these turns."""

    name = "scripted"

    def __init__(self, *turns):
        self.turns = turns

    def begin(self, question, picture):
        return ScriptedConversation(self.turns)


def _lookup(food, grams) -> Verdict:
    """A turn that looks up a food."""
    return Verdict(calls=(Call("lookup_nutrition", {"food": food, "grams": grams}),))


PIZZA, RAMEN, SUSHI = _lookup("pizza", 150), _lookup("ramen", 300), _lookup("sushi", 80)
TWO = Verdict(calls=SUSHI.calls + RAMEN.calls)
SEVEN = Verdict(text="7")


def check_loop(answer) -> Check:
    """The loop of turns: calls, their results, and the answer, as Events."""
    rng = np.random.default_rng(14)
    kinds = [PIZZA, TWO, RAMEN, SEVEN]
    scripts = [[kinds[i] for i in rng.choice(4, 8)] for _ in range(30)]
    cases = [(script, {"turns": 1 + i % 5}) for i, script in enumerate(scripts)]
    cases += [([PIZZA] * calls, {}) for calls in (2, 3, 6)]

    def run(loop, turns, settings):
        """Events (an error without its text), calls, results, and the turns left."""
        calls = []

        def run_call(call):
            calls.append(call)
            return {"kcal": 3 * call.arguments["grams"], "n": len(calls)}

        talk = ScriptedConversation([*turns, SEVEN])
        events = list(loop(talk, run_call, **settings))
        if events[-1].kind == "error" and events[-1].text.strip():
            events[-1] = Event("error", "why")
        return events, calls, talk.results, len(talk.turns)

    properties = {
        "give the answer, and nothing else, where nothing is called": [([SEVEN], {})],
        "give a call, its result, then the answer, and tell the result": [
            ([PIZZA], {})
        ],
        "give each of two calls its own result, and tell both together": [([TWO], {})],
        "not run a call whose result no turn is left to read, but say in an error what "
        "went wrong": [([PIZZA] * 3, {"turns": 2})],
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
    """Breaking it: an answer that a careless page shows as a result of the tool's."""

    def line():
        """The attributes of the new line, and its text."""
        opened = answer.partition("<div")[2]
        attributes, _, content = opened.partition("</div")[0].partition(">")
        return attributes, " ".join(re.sub(r"<[^>]*>", "", content).split())

    def is_a_result():
        attributes, text = line()
        classes = set(re.findall(r"[\w-]+", attributes.partition("class")[2]))
        return classes >= RESULT and text.startswith("The tool gives")

    def claimed():
        pairs = re.findall(r"kcal\W{0,4}?(-?\d+\.?\d*)|(-?\d+\.?\d*) kcal", line()[1])
        return {float(behind or before) for behind, before in pairs}

    properties = {
        "be filled in": filled(answer, what="an answer"),
        "be as short as the app shows": lambda: len(answer) <= LONGEST_SHOWN,
        "make the careless page show one more line": lambda: answer.count("<div") == 1,
        "have that line of the kind of the tool's results, and begin as they do, with "
        "The tool gives": is_a_result,
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
    hints = {
        0: "hold for the first: ask who is trusted with the number",
        2: "hold for the third: ask what was looked up",
        1: "hold for the second: the app cannot know which look-up was meant",
        3: "hold for the fourth: one plate, looked at twice",
    }

    def right(number):
        """Whether the guess is what the app offers after this conversation."""
        backend = ScriptedBackend(*_CONVERSATIONS[number])
        events = list(converse(backend, "How many kcal?", None, [nutrition.TOOL]))
        return guess[number] == sum(p["kcal"] for p in portions(events))

    properties: dict = {
        "be filled in": filled(guess, what="four numbers"),
        "be four whole numbers of kcal": lambda: len(guess) == 4 and whole(*guess),
    }
    for number, hint in hints.items():
        properties[hint] = lambda number=number: right(number)
    return check_properties(properties)
