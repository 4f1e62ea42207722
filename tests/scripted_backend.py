"""An assistant's backend that looks up one food, whatever it sees."""

import re

from helpers.tools.calls import Call, Verdict


class Scripted:
    """Calls the tool for `food` with the grams in the question, then says the kcal.

    Args:
      name: of the model. food: what it always sees; None: no food.
      pause: function called before each turn.
    """

    def __init__(self, name, food, pause=lambda: None):
        self.name, self.food, self.pause = name, food, pause

    def begin(self, question, picture):
        grams = [int(number) for number in re.findall(r"\d+", question)] or [100]
        return _Conversation(self, grams[0], picture)


class _Conversation:
    def __init__(self, backend, grams, picture):
        self.backend, self.grams, self.results = backend, grams, None
        self.size = picture.shape

    def next_turn(self):
        self.backend.pause()
        if self.backend.food is None:
            return Verdict(text="#### no food")
        if self.results is None:
            arguments = {"food": self.backend.food, "grams": self.grams}
            seen = f"I see {self.backend.food} in {self.size[1]} x {self.size[0]}."
            return Verdict(calls=(Call("lookup_nutrition", arguments),), text=seen)
        return Verdict(text=f"#### {self.results[0]['kcal']}")

    def append_results(self, verdict, results):
        self.results = results
