"""Notebooks 09 and 10: tool calls, their masks and prices."""

from helpers.rewards import food_rewards
from helpers.tools import nutrition
from helpers.tools.tool_calls import HERMES

PIZZA = {"food": "pizza", "grams": 150}


def execute(text, lookup, *, name=None, keys=None, food=None, grams=None, one=False):
    """The solution of 09-2, a question left out where something stands for it."""
    verdict, results = HERMES.parse(text), []
    if verdict.error:
        return [{"error": "The turn could not be read."}]
    for call in verdict.calls[: 1 if one else None]:
        given = call.arguments
        weight = given.get("grams")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        good = (
            (name or call.name == "lookup_nutrition")
            and (keys or set(given) == {"food", "grams"})
            and (food or isinstance(given["food"], str))
            and (grams(weight) if grams else number and 0 < weight <= 5000)
        )
        what = {"error": "This call cannot be run."}
        results.append(lookup(given.get("food"), weight) if good else what)
    return results


def careless(**mistake):
    return lambda text, lookup: execute(text, lookup, **mistake)


def parses_only(text, lookup):
    return [lookup(**call.arguments) for call in HERMES.parse(text).calls]


def by_the_helper(text, lookup):
    """A right alternative: the tool's own schema judges."""
    verdict = HERMES.parse(text)
    if verdict.error:
        return [{"error": verdict.error}]
    results = []
    for call in verdict.calls:
        known = nutrition.TOOL.call({**call.arguments, "food": "pizza"})
        whole = call.name == nutrition.TOOL.name and "food" in call.arguments
        whole = whole and isinstance(call.arguments["food"], str)
        good = whole and "error" not in known
        results.append(
            lookup(**call.arguments) if good else {"error": "not a call of the tool"}
        )
    return results


def foods_of_the_table(text, lookup):
    """Takes what the tool knows for what it may be asked."""
    found = []
    for call in HERMES.parse(text).calls:
        known = nutrition.TOOL.name == call.name
        known = known and "error" not in nutrition.TOOL.call(call.arguments)
        refused = {"error": "This call cannot be run."}
        found.append(lookup(**call.arguments) if known else refused)
    return found or by_the_helper(text, lookup)


def trace_mask(turns, *, opening=3, end=1, newline=0, who=("model",), most=99):
    """The solution of 09-4, with its usual mistakes as switches."""
    mask = []
    for speaker, tokens in turns[:most]:
        own = int(speaker in who)
        words = len(tokens) - opening - 2
        mask += [0] * opening + [own] * words + [own * end, own * newline]
    return mask


def tracing(**mistake):
    return lambda turns: trace_mask(turns, **mistake)


def by_role_token(turns):
    return [
        int(tokens[1] == 5 and 3 <= t < len(tokens) - 1)
        for _, tokens in turns
        for t in range(len(tokens))
    ]


def until_newline(turns):
    """Takes the first line break of the words for the end of the turn."""
    mask = []
    for speaker, tokens in turns:
        cut = tokens.index(3, 3)
        mask += [int(speaker == "model" and 3 <= t < cut) for t in range(len(tokens))]
    return mask


def eats_turns(turns):
    mask = trace_mask(turns)
    turns.clear()
    return mask


def pieces_mask(*, role="assistant", said=lambda i, n: 1, rest=0):
    def mask(pieces):
        return [
            said(i, len(tokens)) if who == role else rest
            for who, tokens in pieces
            for i in range(len(tokens))
        ]

    return mask


def last_piece(pieces):
    *before, (_, tokens) = pieces
    return [0 for _, ids in before for _ in ids] + [1] * len(tokens)


def by_token(pieces):
    told = {t for who, tokens in pieces if who == "tool" for t in tokens}
    return [int(t not in told) for _, tokens in pieces for t in tokens]


def silence(*, price=-1.0, silent=lambda trace: not trace.calls, wanted=bool):
    """The solution of 10-4, with its usual mistakes as switches."""

    def reward(prompts, completions, portions, **_):
        pairs = zip(completions, portions, strict=True)
        return [price if wanted(p) and silent(t) else 0.0 for t, p in pairs]

    return reward


def eats_plates(prompts, completions, portions, **_):
    paid = silence()(prompts, completions, portions)
    portions.clear()
    return paid


WRONG = {
    "09-1": {
        "one side": (64, 16),
        "every fourth": (4096, 1024),
        "exchanged": (256, 4096),
        "pixels": (896 * 896, 256),
        "of the tiny model": (36, 9),
        "no squares": (4096, 4096),
        "strings": ("4096", "256"),
    },
    "09-2": {
        "parses only": parses_only,
        "any tool": careless(name=True),
        "any keys": careless(keys=True, food=True),
        "any food": careless(food=True),
        "quotes": careless(grams=lambda g: 0 < float(g) <= 5000),
        "0 as well": careless(
            grams=lambda g: type(g) in (int, float) and 0 <= g <= 5000
        ),
        "no upper end": careless(grams=lambda g: type(g) in (int, float) and g > 0),
        "below 5,000": careless(
            grams=lambda g: type(g) in (int, float) and 0 < g < 5000
        ),
        "whole grams": careless(grams=lambda g: type(g) is int and 0 < g <= 5000),
        "True": careless(grams=lambda g: isinstance(g, int | float) and 0 < g <= 5000),
        "one call": careless(one=True),
        "nothing runs": lambda text, lookup: [],
        "exchanged": lambda text, lookup: execute(text, lambda f, g: lookup(g, f)),
        "foods of the table": foods_of_the_table,
        "another spelling": lambda text, lookup: execute(
            text, lambda food, grams: lookup(food.lower().replace(" ", "_"), grams)
        ),
        "rounded grams": lambda text, lookup: execute(
            text, lambda food, grams: lookup(food, round(grams))
        ),
    },
    "09-3": {
        "found": "<<lookup pizza 150>>",
        "malformed": "<<lookup pizza>>",
        "no call": "There is no pizza.",
        "two calls": "<<lookup plate 10>><<lookup cup 10>>",
        "no text": None,
        "not closed": "<<lookup plate 150",
    },
    "09-4": {
        "the opening, too": tracing(opening=2),
        "no end": tracing(end=0),
        "the line break": tracing(newline=1),
        "the tool": tracing(who=("model", "tool")),
        "the user": tracing(who=("user",)),
        "the first call": tracing(most=2),
        "the first four turns": tracing(most=4),
        "until a line break": until_newline,
        "nested": lambda turns: [trace_mask([turn]) for turn in turns],
        "all": lambda turns: [1 for _, tokens in turns for _ in tokens],
        "eats the turns": eats_turns,
    },
    "10-1": {
        "the tool": pieces_mask(role="tool"),
        "all": pieces_mask(rest=1),
        "no ends": pieces_mask(said=lambda i, n: int(i < n - 1)),
        "no beginnings": pieces_mask(said=lambda i, n: int(i > 0)),
        "the last piece": last_piece,
        "tokens of the tool": by_token,
        "the example": lambda pieces: [1, 1, 1, 0, 0, 1, 1],
        "one per piece": lambda pieces: [int(who == "assistant") for who, _ in pieces],
        "halves": pieces_mask(said=lambda i, n: 0.5),
        "in turn": lambda pieces: [
            int(i % 2 == 0) for i, (_, tokens) in enumerate(pieces) for _ in tokens
        ],
    },
    "10-2": {
        "per call": 10 / 90,
        "all calls": 8 * 10 / 100,
        "all are needless": 8 * 10 / 130,
        "less": 0.8,
        "more": 1.0,
        "minus": -0.9,
        "a text": "0.9",
    },
    "10-3": {
        "the right one": ["<<lookup pizza 150>>", "#### 402"],
        "a text": "#### no food",
        "looks up sushi": ["<<lookup sushi 150>>", "#### 218"],
        "no form": ["I cannot tell."],
        "nothing": [],
        "goes on after the end": ["#### no food", "#### 402"],
        "looks up, then lies": ["<<lookup pizza 150>>", "#### no food"],
    },
    "10-4": {
        "a reward": silence(price=1.0),
        "no look at the plate": silence(wanted=lambda p: True),
        "empty plates": silence(wanted=lambda p: not p),
        "every plate": silence(silent=lambda trace: True),
        "who calls": silence(silent=lambda trace: bool(trace.calls)),
        "only denial": silence(silent=lambda t: food_rewards.NO_FOOD in t.said),
        "broken calls count": silence(silent=lambda t: "<<" not in t.said),
        "one number": lambda prompts, completions, **_: [0.0],
        "sorted": lambda prompts, completions, **c: sorted(
            silence()(prompts, completions, **c)
        ),
        "one turn only": silence(silent=lambda trace: len(trace.turns) < 2),
        "found nothing": silence(
            silent=lambda trace: not any("kcal" in result for _, result in trace.calls)
        ),
        "eats the plates": eats_plates,
        "one more column": lambda prompts, completions, portions, image=None: silence()(
            prompts, completions, portions
        ),
    },
}

RIGHT = {
    "09-1": {"products": (64**2, 16**2)},
    "09-2": {"word by word": execute, "the schema": by_the_helper},
    "09-3": {"too much": "<<lookup pizza 9000>>", "a cup": "<<lookup cup 20>>"},
    "09-4": {"by length": trace_mask, "by the role's token": by_role_token},
    "10-1": {
        "one by one": pieces_mask(),
        "truths": pieces_mask(said=lambda i, n: True),
    },
    "10-2": {"rounded": 0.89, "more rounded": 0.9},
    "10-3": {"a number": ["#### 500"], "broken off": ["<<lookup pizza", "#### 1"]},
    "10-4": {"ints": silence(price=-1), "floats": silence()},
}
