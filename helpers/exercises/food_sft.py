"""Self-checks of notebook 09: pictures, tool calls, masks, and luck."""

import itertools
import json

import numpy as np

from helpers.exercises.check import Check, check_properties, zeros_and_ones


def check_image_tokens(answer) -> Check:
    """Exercise 1: squares of neighbouring patches averaged, in reading order."""
    rng = np.random.default_rng(9)
    # Two rows of two squares of 2 × 2; a patch says its row and its column.
    small = np.stack([*np.divmod(np.arange(16.0), 4), np.full(16, 7.0)], axis=1)
    cases = []
    for down, across, n in [*rng.integers(1, 5, (12, 3)).tolist(), [3, 2, 1]]:
        cases.append((rng.normal(size=(down * across * n * n, 4)), across * n, n))

    def averaged(patches, columns, square):
        tokens = []
        for top in range(0, len(patches) // columns, square):
            for left in range(0, columns, square):
                places = itertools.product(range(square), repeat=2)
                inside = [patches[(top + y) * columns + left + x] for y, x in places]
                tokens.append(sum(inside) / len(inside))
        return np.array(tokens)

    def tokens():
        return np.asarray(answer(small.copy(), 4, 2))

    properties = {
        "give the mean: a 7 everywhere stays 7": lambda: np.allclose(tokens()[:, 2], 7),
        "average a square of two rows and two columns, not four patches of a row": (
            lambda: np.allclose(tokens()[0], [0.5, 0.5, 7])
        ),
        "keep the reading order, from left to right and then down": [(small, 4, 2)],
        "be right for squares of any size in pictures of any shape": cases,
    }
    return check_properties(properties, answer, averaged, 1e-4)


def _call(name="lookup_nutrition", **arguments):
    """A turn of a Qwen model that makes one call."""
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


PIZZA, SUSHI = {"food": "pizza", "grams": 150}, {"food": "sushi", "grams": 80.5}
TACOS = {"grams": 75, "food": "tacos"}  # JSON may name its keys in any order
# What has to be refused, and turns that ask for it.
_REFUSED = {
    "a turn that the parser finds malformed": [_call(**PIZZA)[:-9]],
    "a tool that there is not": [
        _call(name, **PIZZA)
        for name in ("os.system", "lookup", "no_lookup_nutrition", "Lookup_Nutrition")
    ],
    "a call without grams": [_call(food="pizza"), _call(food="pizza", gram=150)],
    "an argument too many": [_call(**PIZZA, unit="g")],
    "a food that is no text": [
        _call(food=food, grams=150) for food in (["pizza"], 7, None, {"a": 1}, True)
    ],
    "grams that are no number": [
        _call(food="pizza", grams=grams) for grams in ("150", [150], {"g": 1}, None)
    ],
    "true as grams": [_call(food="pizza", grams=True)],
    "grams of 0, or below": [_call(food="pizza", grams=g) for g in (0, -150)],
    "grams above 5,000": [_call(food="pizza", grams=g) for g in (5000.5, 10**9)],
}


def check_execute(answer) -> Check:
    """Exercise 2: a turn of the model is validated, then executed or refused."""

    def run(text):
        """(results, arguments of each lookup that was made) of a turn."""
        made = []

        def lookup(food, grams):
            made.append({"food": food, "grams": grams})
            return {"kcal": 100 + len(made)}

        return list(answer(text, lookup)), made

    def runs(*calls):
        """Whether all calls of a turn are run, in order."""
        results = [{"kcal": 101 + i} for i in range(len(calls))]
        return run("\n".join(_call(**call) for call in calls)) == (results, [*calls])

    def refused(text):
        results, made = run(text)
        errors = [list(result) for result in results]
        return not made and errors == [["error"]] and " " in results[0]["error"]

    def kinds(text):
        return [key for result in run(text)[0] for key in result]

    properties = {
        "run a right call once, and give its result in a list": lambda: runs(PIZZA),
        "give [] for words without a call": lambda: run("A pizza.") == ([], []),
        "tell food and grams by their names, in any order": lambda: runs(TACOS),
        "run any food as it is written, with grams up to 5,000": lambda: all(
            runs({"food": "White plate", "grams": grams}) for grams in (0.5, 1, 5000)
        ),
    }
    for what, texts in _REFUSED.items():
        phrase = f"refuse {what}, say why, and look nothing up"
        properties[phrase] = lambda texts=texts: all(map(refused, texts))
    properties["run all calls of a turn, in order"] = lambda: (
        runs(PIZZA, SUSHI) and runs(TACOS, PIZZA, SUSHI, PIZZA)
    )
    properties["run the right one of two calls, and refuse the other"] = lambda: (
        kinds(_call(**PIZZA) + _call()) == ["kcal", "error"]
        and kinds(_call() + _call(**SUSHI)) == ["error", "kcal"]
    )
    return check_properties(properties)


START, END, LINE = "<start_of_turn>", "<end_of_turn>", "\n"
TALK = (
    ("user", ["How", " much", "?"]),
    ("model", ["<<lookup", " pizza", ">>"]),
    ("tool", ["kcal", " 402"]),
    ("model", ["####", " 402"]),
)


def check_learned(answer) -> Check:
    """Exercise 3: a row and its mask by who wrote a piece, not by what it says."""
    rng = np.random.default_rng(9)

    def learned(turns):
        row, mask = answer(turns)
        return list(row), zeros_and_ones(mask)

    def reference(turns):
        pieces, mask, _ = zip(*_pieces(turns), strict=True)
        return list(pieces), list(mask)

    def made(part):
        """The row or the mask of TALK."""
        return learned([(who, [*pieces]) for who, pieces in TALK])[part]

    def marks(*kinds):
        """Whether the mask is right on the pieces of these kinds."""
        each = zip(made(1), _pieces(TALK), strict=True)
        return all(mark == truth for mark, (_, truth, kind) in each if kind in kinds)

    properties = {
        "put the template's pieces around each turn, those of a tool under user": (
            lambda: made(0) == reference(TALK)[0]
        ),
        "learn nothing that the user or the tool says": lambda: marks("user", "tool"),
        "learn all that the model says, in every turn": lambda: marks("model"),
        "learn the end of the model's turns, and no other piece of the template": (
            lambda: marks("end", "template")
        ),
        "go by who wrote a piece, whatever it looks like, in any conversation": [
            (_talk(rng),) for _ in range(30)
        ],
    }
    return check_properties(properties, learned, reference)


def _pieces(turns):
    """(piece, 1 if it is learned, whose it is) of a whole conversation."""
    found = []
    for who, pieces in turns:
        model = int(who == "model")
        head = "model" if model else "user"
        found += [(piece, 0, "template") for piece in (START, head, LINE)]
        found += [(piece, model, who) for piece in pieces]
        found += [(END, model, "end"), (LINE, 0, "template")]
    return found


def _talk(rng):
    """Turns of anybody in any order, who may say a piece of the template as well."""
    words = [START, END, LINE, "user", "tool", "model", "kcal", " 402"]
    return [
        (str(rng.choice(["user", "tool", "model"])), rng.choice(words, size).tolist())
        for size in rng.integers(0, 7, rng.integers(1, 7))
    ]


def check_by_luck(answer) -> Check:
    """Exercise 4: how often another question's picture shows the same food."""
    rng = np.random.default_rng(9)
    cases = []
    for _ in range(20):
        names = [f"food {i}" for i in range(rng.integers(2, 9))]
        shares = rng.dirichlet(np.ones(len(names)))
        cases.append((rng.choice(names, rng.integers(3, 40), p=shares).tolist(),))

    def by_luck(foods):
        pairs = list(itertools.permutations(foods, 2))
        return sum(one == other for one, other in pairs) / len(pairs)

    properties = {
        "be 1 where all questions show one food": [(["pizza"] * 5,)],
        "be a third for two pairs: one of three others shows the same": [
            (["pizza", "sushi", "pizza", "sushi"],)
        ],
        "be right for any foods, however often they come": cases,
    }
    return check_properties(properties, answer, by_luck, 1e-9)
