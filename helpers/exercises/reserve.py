"""Self-checks of notebook 14's spare model: a backend made of two."""

import numpy as np

from helpers.app.assistant import BackendError, Event
from helpers.exercises.check import Check, check_properties
from helpers.exercises.played import (
    PICTURE,
    QUESTION,
    Apart,
    Played,
    Unable,
    at_once,
    lookup,
    talk,
)
from helpers.tools.calls import Verdict

PIZZA = lookup("pizza", 150)
AWAY, CUT = Unable("the first"), BackendError("The line was cut.")
RAMEN, SUSHI = lookup("ramen", 300), lookup("sushi", 80)
SAID_1, SAID_2 = Verdict(text="#### 1"), Verdict(text="#### 2")


def _apart(answer) -> bool:
    """Whether two conversations that are held in turns know nothing of each other."""
    first, second = Apart(PIZZA, CUT), Apart(RAMEN, SAID_2)
    held = at_once(answer(first, second))
    alone = talk(Played(PIZZA, SAID_1))[:2] + talk(Played(RAMEN, SAID_2))
    asked = [
        [begun for talk in both.held for begun in talk.begun]
        for both in (first, second)
    ]
    return held == [alone, alone] and all(
        question.endswith(str(i)) and (picture == PICTURE + i).all()
        for talks in asked
        for i, (question, picture) in enumerate(talks)
    )


class _Pair:
    """A learner's backend of two, with what the two saw."""

    def __init__(self, answer, first, second):
        self.first, self.second = Played(*first), Played(*second)
        self.both = answer(self.first, self.second)

    def talk(self, times=1):
        return talk(self.both, times)

    def leaves_alone(self):
        return self.talk() and self.second.begun == []

    def asks_the_same(self):
        self.talk()
        (first,), (second,) = self.first.begun, self.second.begun
        return all(
            question == QUESTION and np.array_equal(picture, PICTURE)
            for question, picture in (first, second)
        )

    def tells_its_own(self, called):
        self.talk()
        foods = [result["food"] for _, (result,) in self.second.told]
        expected = [verdict.calls[0].arguments["food"] for verdict in called]
        heard = [verdict for verdict, _ in self.first.told]
        told = [verdict for verdict, _ in self.second.told]
        return heard == [PIZZA] and told == called and foods == expected

    def begins_with_the_first(self):
        self.talk(times=3)
        return len(self.first.begun) == 3

    def goes_back(self):
        self.talk()
        self.first.turns = (SAID_1,)
        return self.talk()[-1].text == SAID_1.text

    def lets_faults_through(self):
        try:
            self.talk()
        except ArithmeticError:
            return True
        return False


def check_reserve(answer) -> Check:
    """A backend made of two: the second is asked where the first cannot be."""

    def pair(first, second=(SAID_2,)):
        return _Pair(answer, first, second)

    def alone(*turns):
        return talk(Played(*turns))

    works, helps = (PIZZA, SUSHI, SAID_1), (RAMEN, SUSHI, SAID_2)
    fault = ZeroDivisionError("a fault in the course")
    return check_properties(
        (
            "do as the first does, as long as it can be asked",
            lambda: pair(works).talk() == alone(*works),
        ),
        ("leave the second alone until then", lambda: pair(works).leaves_alone()),
        (
            "ask the second where the first cannot begin",
            lambda: pair([AWAY], helps).talk() == alone(*helps),
        ),
        (
            "ask the second where the first fails in its turn",
            lambda: pair([CUT], helps).talk() == alone(*helps),
        ),
        (
            "let the second do its own work where the first fails after a call",
            lambda: (
                pair([PIZZA, CUT], [RAMEN, SAID_2]).talk()
                == alone(*works)[:2] + alone(RAMEN, SAID_2)
            ),
        ),
        (
            "ask both the same question about the same picture",
            lambda: pair([PIZZA, CUT]).asks_the_same() and pair([AWAY]).asks_the_same(),
        ),
        (
            "tell each of the two what its own calls gave, and no others",
            lambda: pair([PIZZA, CUT], helps).tells_its_own([RAMEN, SUSHI]),
        ),
        (
            "pass on what the second says where both fail",
            lambda: (
                pair([AWAY], [BackendError("Me too.")]).talk()
                == [Event("error", "Me too.")]
            ),
        ),
        (
            "begin every conversation with the first",
            lambda: pair([CUT]).begins_with_the_first(),
        ),
        ("go back to the first once it can be asked", lambda: pair([CUT]).goes_back()),
        (
            "keep two conversations apart that are held at the same time",
            lambda: _apart(answer),
        ),
        (
            "catch only what a person can mend, a BackendError",
            lambda: pair([fault]).lets_faults_through(),
        ),
    )
