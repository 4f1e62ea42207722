"""Self-checks of notebook 09: pictures, tool calls, masks, and luck."""

import itertools
import json

import numpy as np

from helpers.exercises.check import Check, check_properties, texts


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

    properties = {
        "average a square of two rows and two columns, not four patches of a row": (
            lambda: np.allclose(answer(small.copy(), 4, 2)[0], [0.5, 0.5, 7])
        ),
        "keep the reading order, from left to right and then down": [(small, 4, 2)],
        "be right for squares of any size in pictures of any shape": cases,
    }
    return check_properties(properties, answer, averaged, 1e-4)


PIZZA, SUSHI = {"food": "pizza", "grams": 150}, {"food": "sushi", "grams": 80.5}
TACOS = {"grams": 75, "food": "tacos"}  # JSON may name its keys in any order


def _turn(call):
    """A turn of a Qwen model that makes one call."""
    return f"<tool_call>\n{call}\n</tool_call>"


def _call(**arguments):
    return _turn(json.dumps({"name": "lookup_nutrition", "arguments": arguments}))


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
        "run a right call once, its arguments in any order, and give its result in a "
        "list": lambda: runs(PIZZA) and runs(TACOS),
        "give [] for words without a call": lambda: run("A pizza.") == ([], []),
        "run any food as it is written, with grams up to 5,000": lambda: all(
            runs({"food": "White plate", "grams": grams}) for grams in (0.5, 1, 5000)
        ),
    }
    for what, calls in texts("execute").items():
        phrase = f"refuse {what}, say why, and look nothing up"
        properties[phrase] = lambda calls=calls: all(
            refused(_turn(call)) for call in calls
        )
    properties["run the right calls of a turn, in order, and refuse the others"] = (
        lambda: (
            runs(TACOS, PIZZA, SUSHI, PIZZA)
            and kinds(_call(**PIZZA) + _call()) == ["kcal", "error"]
            and kinds(_call() + _call(**SUSHI)) == ["error", "kcal"]
        )
    )
    return check_properties(properties)


START, END, LINE = "<start_of_turn>", "<end_of_turn>", "\n"
TALK = [
    ("user", ["How", " much", "?"]),
    ("model", ["<<lookup", " pizza", ">>"]),
    ("tool", ["kcal", " 402"]),
    ("model", ["####", " 402"]),
]


def check_learned(answer) -> Check:
    """Exercise 3: a row and its mask by who wrote a piece, not by what it says."""
    rng = np.random.default_rng(9)

    def learned(turns):
        """The row, and the mask of all turns."""
        row, mask = [], []
        for who, pieces in turns:
            model = int(who == "model")
            row += [START, "model" if model else "user", LINE, *pieces, END, LINE]
            mask += [0, 0, 0, *[model] * (len(pieces) + 1), 0]
        return row, mask

    def talk():
        """Turns of anybody in any order, who may say a piece of the template, too."""
        words = [START, END, LINE, "user", "tool", "model", "kcal", " 402"]
        return [
            (str(rng.choice(["user", "tool", "model"])), rng.choice(words, n).tolist())
            for n in rng.integers(0, 7, rng.integers(1, 7))
        ]

    properties = {
        "put the template's pieces around each turn, those of a tool under user": (
            lambda: [*answer(TALK)[0]] == learned(TALK)[0]
        ),
        "learn nothing that the user or the tool says": [(TALK[0::2],)],
        "learn all that the model says, the end of its turn, and no other piece of the "
        "template": [(TALK,)],
        "go by who wrote a piece, whatever it looks like, in any conversation": [
            (talk(),) for _ in range(30)
        ],
    }
    return check_properties(properties, answer, learned)


def check_by_luck(answer) -> Check:
    """Exercise 4: how often another question's picture shows the same food."""
    rng, cases = np.random.default_rng(9), []
    for kinds in rng.integers(2, 9, 20):
        shares = rng.dirichlet(np.ones(kinds))
        foods = rng.choice(kinds, rng.integers(3, 40), p=shares)
        cases.append(([f"food {food}" for food in foods],))

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
