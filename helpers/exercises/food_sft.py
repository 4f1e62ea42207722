"""Self-checks of notebooks/09_food_sft: pictures, tool calls, masks of traces."""

import json

import numpy as np

from helpers.exercises.check import (
    Check,
    filled,
    judge,
    leaves_alone,
    zeros_and_ones,
)
from helpers.tools import nutrition
from helpers.tools.tool import run_call

SIDE, PATCH, SQUARE = 896, 14, 4  # exercise 1: of Gemma 3 4B

# Exercise 4: token ids of a toy template.
START, END, NEWLINE, USER, MODEL = 1, 2, 3, 4, 5


def check_photo(patches, tokens) -> Check:
    """Exercise 1: how many patches and image tokens a photo becomes."""
    side = SIDE // PATCH
    return judge(
        ("name two numbers", filled(patches, tokens, what="two numbers")),
        ("have more patches than tokens", lambda: patches > tokens > 0),
        ("count patches along both sides", lambda: patches != side),
        ("count as many patches as fit into the photo", lambda: patches == side**2),
        (
            "make one token of every square of 4 × 4 patches, not of a row of 4",
            lambda: tokens == patches // SQUARE**2,
        ),
    )


def _turn(arguments, name="lookup_nutrition"):
    """A turn of a Qwen model that makes one call."""
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


PIZZA, SUSHI = {"food": "pizza", "grams": 150}, {"food": "sushi", "grams": 80.5}
HOSTILE = (
    ("refuse a turn that the parser finds malformed", _turn(PIZZA)[:-9]),
    ("refuse a tool that there is not", _turn(PIZZA, "os.system")),
    ("refuse any tool that there is not", _turn(PIZZA, "delete_log")),
    ("refuse a tool with a longer name", _turn(PIZZA, "lookup_nutrition2")),
    ("refuse a call without grams", _turn({"food": "pizza"})),
    ("refuse an argument too many", _turn({**PIZZA, "unit": "g"})),
    ("refuse an argument of another name", _turn({"food": "pizza", "gram": 150})),
    ("refuse a food that is no text", _turn({"food": ["pizza"], "grams": 150})),
    ("refuse grams in quotes", _turn({"food": "pizza", "grams": "150"})),
    ("refuse true as grams", _turn({"food": "pizza", "grams": True})),
    ("refuse null as grams", _turn({"food": "pizza", "grams": None})),
    ("refuse grams of 0", _turn({"food": "pizza", "grams": 0})),
    ("refuse grams below 0", _turn({"food": "pizza", "grams": -150})),
    ("refuse grams above 5,000", _turn({"food": "pizza", "grams": 10**9})),
    ("refuse grams just above 5,000", _turn({"food": "pizza", "grams": 5000.5})),
)
ALLOWED = (0.5, 1, 80.5, 4999, 5000)  # grams


def _executed(answer, text):
    """(results, arguments of each lookup that was made) of a turn."""
    made = []

    def lookup(food, grams):
        made.append({"food": food, "grams": grams})
        return {"kcal": 100 + len(made)}

    return answer(text, lookup), made


def _refuses(answer, text):
    """A property: the turn gets one error, and nothing is looked up."""

    def refused():
        results, made = _executed(answer, text)
        return not made and [list(result) for result in results] == [["error"]]

    return refused


def check_execute(answer) -> Check:
    """Exercise 2: a turn of the model is validated, then executed or refused."""

    def ran(text):
        return _executed(answer, text)

    return judge(
        (
            "run a right call once, and give its result in a list",
            lambda: ran(_turn(PIZZA)) == ([{"kcal": 101}], [PIZZA]),
        ),
        ("give [] for words without a call", lambda: ran("A pizza.") == ([], [])),
        (
            "run any food as it is written, with grams from just above 0 up to 5,000",
            lambda: all(
                ran(_turn({"food": food, "grams": grams}))
                == ([{"kcal": 101}], [{"food": food, "grams": grams}])
                for food in ("ramen", "White plate")
                for grams in ALLOWED
            ),
        ),
        *(
            (f"{phrase}, and look nothing up", _refuses(answer, text))
            for phrase, text in HOSTILE
        ),
        (
            "run both calls of a turn with two, in order",
            lambda: (
                ran(f"{_turn(PIZZA)}\n{_turn(SUSHI)}")
                == ([{"kcal": 101}, {"kcal": 102}], [PIZZA, SUSHI])
            ),
        ),
        (
            "run the right one of two calls, and refuse the other",
            lambda: (
                [set(r) for r in ran(_turn(PIZZA) + _turn({}))[0]]
                == [{"kcal"}, {"error"}]
            ),
        ),
        (
            "refuse the first of two calls, and run the second",
            lambda: (
                [set(r) for r in ran(_turn({}) + _turn(SUSHI))[0]]
                == [{"error"}, {"kcal"}]
            ),
        ),
        (
            "say in every error what is wrong, in words",
            lambda: all(
                len(ran(text)[0][0]["error"].split()) >= 3 for _, text in HOSTILE
            ),
        ),
    )


def check_found_nothing(text) -> Check:
    """Exercise 3: a well-formed call that the tool cannot answer."""
    verdict = nutrition.TINY.parse(str(text))

    def result():
        (call,) = verdict.calls
        return run_call([nutrition.TOOL], call)

    return judge(
        ("be a text", lambda: isinstance(text, str)),
        ("be a call that the parser accepts", lambda: not verdict.error),
        ("make exactly one call", lambda: len(verdict.calls) == 1),
        ("get an error from the tool in place of kcal", lambda: "error" in result()),
    )


def check_trace_mask(answer) -> Check:
    """Exercise 4: the mask of a conversation in which a tool speaks."""

    def turn(role, *words):
        return [START, role, NEWLINE, *words, END, NEWLINE]

    asked, heard = ("user", turn(USER, 10, 11, 12)), ("tool", turn(USER, 30, 41, 42))
    called, answered = ("model", turn(MODEL, 20, 21)), ("model", turn(MODEL, 41, 42))
    trace = [asked, called, heard, answered]
    talks = [_talk(np.random.default_rng(seed)) for seed in range(20)]

    def mask(turns):
        return zeros_and_ones(answer([(who, list(tokens)) for who, tokens in turns]))

    return judge(
        (
            "give one entry per token, in one flat list",
            lambda: len(mask(trace)) == sum(len(tokens) for _, tokens in trace),
        ),
        ("learn nothing a user says", lambda: not any(mask([asked]))),
        (
            "leave out the three tokens that open the model's turn",
            lambda: not any(mask([called])[:3]),
        ),
        ("learn the call", lambda: mask([called])[3:5] == [1, 1]),
        ("learn to stop after the call", lambda: mask([called])[5] == 1),
        ("leave out the newline after it", lambda: mask([called])[6:] == [0]),
        (
            "not learn what the tool says, though the answer repeats it",
            lambda: not any(mask(trace)[15:23]),
        ),
        (
            "learn the answer after the tool's turn",
            lambda: mask(trace)[23:] == [0, 0, 0, 1, 1, 1, 0],
        ),
        (
            "go on for as many calls as there are",
            lambda: (
                mask([asked, called, heard, called, heard, answered])
                == mask([asked, called, heard]) + mask([called, heard, answered])
            ),
        ),
        (
            "be right for any turns, with line breaks inside them",
            lambda: all(mask(turns) == truth for turns, truth in talks),
        ),
        ("leave the turns as they are", lambda: leaves_alone(answer, trace)),
    )


def _talk(rng):
    """(turns, mask) of a conversation; words may be NEWLINE, USER or MODEL, too."""
    roles = {"user": USER, "model": MODEL, "tool": USER}
    turns, mask = [], []
    for who in rng.choice(list(roles), size=5).tolist():
        words = rng.choice([NEWLINE, USER, MODEL, 10, 11], rng.integers(1, 6)).tolist()
        own = int(who == "model")
        turns.append((who, [START, roles[who], NEWLINE, *words, END, NEWLINE]))
        mask += [0, 0, 0] + [own] * len(words) + [own, 0]
    return turns, mask
