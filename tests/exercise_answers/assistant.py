"""Notebook 14: events, a call that is refused, another weight, another model."""

from helpers.app.meal_log import scaled
from helpers.tools import nutrition
from helpers.tools.tool_calls import Call, Verdict

PIZZA = {"food": "pizza", "grams": 150}


def another(portion, grams, *, base=None, names=nutrition.NUTRIENTS, digits=None):
    share = grams / (base or portion["grams"])
    amounts = {n: portion[n] * share for n in names}
    if digits is not None:
        amounts = {n: round(amount, digits) for n, amount in amounts.items()}
    return {**portion, "grams": grams, **amounts}


def in_place(portion, grams):
    portion.update(another(portion, grams))
    return portion


def asks_the_tool(portion, grams):
    return nutrition.TOOL.call({"food": portion["food"], "grams": grams})


class Backend:
    """The solution of 14-4; a subclass makes a mistake."""

    name = "always pizza"
    arguments = PIZZA

    def begin(self, question, picture):
        self.told = None
        return self

    def next_turn(self):
        if self.told is None:
            call = Call("lookup_nutrition", dict(self.arguments))
            return Verdict(calls=(call,))
        return Verdict(text=self.words())

    def words(self):
        return f"#### {self.told['kcal']}"

    def append_results(self, verdict, results):
        self.told = results[0]


class ByHeart(Backend):
    def words(self):
        return "#### 402"


class Chatty(Backend):
    def words(self):
        return f"It has {self.told['kcal']} kcal."


class Sushi(Backend):
    arguments = {"food": "sushi", "grams": 150}


class Half(Backend):
    arguments = {"food": "pizza", "grams": 75}


class Forgetful(Backend):
    def append_results(self, verdict, results):
        pass


class Never(Backend):
    told = None

    def begin(self, question, picture):
        return self


class Silent(Backend):
    def next_turn(self):
        return Verdict(text="#### 402")


class PerConversation:
    """A right alternative: each conversation is an object of its own."""

    name = "pizza again"

    def begin(self, question, picture):
        backend = Backend()
        return backend.begin(question, picture)


WRONG = {
    "14-1": {"two": 2, "four": 4, "one": 1, "a half": 2.5, "a text": "3"},
    "14-2": {
        "known": PIZZA,
        "nothing like it": {"food": "qqqq", "grams": 150},
        "too many grams": {"food": "piza", "grams": 9000},
        "no grams": {"food": "piza"},
        "an argument too many": {"food": "piza", "grams": 150, "unit": "g"},
        "grams in quotes": {"food": "piza", "grams": "150"},
        "a list": ["piza", 150],
    },
    "14-3": {
        "the same": lambda portion, grams: dict(portion),
        "only kcal": lambda portion, grams: another(portion, grams, names=("kcal",)),
        "rounded": lambda portion, grams: another(portion, grams, digits=1),
        "from 150 g": lambda portion, grams: another(portion, grams, base=150),
        "upside down": lambda portion, grams: another(
            portion, grams, base=grams * grams / portion["grams"]
        ),
        "no food": lambda portion, grams: {
            k: v for k, v in another(portion, grams).items() if k != "food"
        },
        "the tool's": asks_the_tool,
        "in place": in_place,
    },
    "14-4": {
        "by heart": ByHeart,
        "chatty": Chatty,
        "sushi": Sushi,
        "half of it": Half,
        "forgets the result": Forgetful,
        "never begins anew": Never,
        "no call": Silent,
    },
}

RIGHT = {
    "14-1": {"a float": 3.0},
    "14-2": {"a word of it": {"food": "sushi burger", "grams": 20.5}},
    "14-3": {"the helper's": scaled, "a new dict": another},
    "14-4": {"one object": Backend, "an object each": PerConversation},
}
