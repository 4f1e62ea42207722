"""Models that play turns written beforehand, for the self-checks of notebook 14."""

import numpy as np

from helpers.app.assistant import BackendError, converse
from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict

QUESTION, PICTURE = "How many kcal are in this?", np.full((4, 5, 3), 7, np.uint8)


def lookup(food, grams) -> Verdict:
    """A turn that looks up a food."""
    return Verdict(calls=(Call("lookup_nutrition", {"food": food, "grams": grams}),))


class Played:
    """A backend that plays turns written beforehand, and its own conversation.

    Args:
      turns: of every conversation: Verdicts, or exceptions to raise; the last is
        given for ever. An `Unable` in their place: it cannot even begin.
    """

    name = "played"

    def __init__(self, *turns):
        self.turns, self.begun, self.told = turns, [], []
        self.left = list(turns)

    def begin(self, question, picture):
        self.begun.append((question, picture))
        self.left, self.told = list(self.turns), []
        if isinstance(self.left[0], Unable):
            raise BackendError(f"{self.left[0]} is away.")
        return self

    def next_turn(self):
        turn = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(turn, Exception):
            raise turn
        return turn

    def append_results(self, verdict, results):
        self.told.append((verdict, list(results)))


class Apart:
    """A backend whose every conversation is a `Played` of its own, in `held`."""

    name = "apart"

    def __init__(self, *turns):
        self.turns, self.held = turns, []

    def begin(self, question, picture):
        self.held.append(Played(*self.turns))
        return self.held[-1].begin(question, picture)


class Unable(str):
    """Who cannot begin a conversation."""


def talk(backend, times=1) -> list:
    """Events of a conversation; of the last one, where there are several."""
    for _ in range(times):
        events = list(converse(backend, QUESTION, PICTURE, [nutrition.TOOL]))
    return events


def at_once(backend) -> list[list]:
    """Events of two conversations, an event of each in turn.

    Number i, 0 or 1, asks `QUESTION` and i about `PICTURE` + i.
    """
    held = [
        converse(backend, f"{QUESTION} {i}", PICTURE + i, [nutrition.TOOL])
        for i in range(2)
    ]
    steps = list(zip(*held, strict=True))
    return [list(events) for events in zip(*steps, strict=True)]
