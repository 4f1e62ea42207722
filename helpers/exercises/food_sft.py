"""Self-checks of notebook 09: image tokens, and calls that a model wrote."""

import itertools
import json

import numpy as np

from helpers.exercises.check import Check, check_properties


def check_image_tokens(answer) -> Check:
    """Exercise 1: squares of neighbouring patches averaged, in reading order."""
    rng = np.random.default_rng(9)
    # A patch of the small picture says its row and its column.
    small = np.stack(np.divmod(np.arange(16.0), 4), axis=1)
    cases = []
    for down, across, n in [*rng.integers(1, 5, (12, 3)).tolist(), [3, 2, 1]]:
        cases.append((rng.normal(size=(down * across * n * n, 4)), across * n, n))

    def averaged(patches, columns, n):
        grid = patches.reshape(-1, columns, patches.shape[-1])
        corners = itertools.product(*(range(0, side, n) for side in grid.shape[:2]))
        squares = [grid[y : y + n, x : x + n] for y, x in corners]
        return np.array([square.mean(axis=(0, 1)) for square in squares])

    properties = {
        "average a square of two rows and two columns, not four patches of a row": (
            lambda: np.allclose(answer(small.copy(), 4, 2)[0], 0.5)
        ),
        "keep the reading order, from left to right and then down": [(small, 4, 2)],
        "be right for squares of any size in pictures of any shape": cases,
    }
    return check_properties(properties, answer, averaged, 1e-4)


NAME, PIZZA = "lookup_nutrition", {"food": "pizza", "grams": 150}
RIGHT = [  # (name, arguments); JSON may have its keys in any order
    (NAME, PIZZA),
    (NAME, {"grams": 0.5, "food": "tacos"}),
    (NAME, {"food": "White plate", "grams": 5000}),
]
WRONG = {
    "a tool that does not exist": [("lookup", PIZZA), (f"no_{NAME}", PIZZA)],
    "a call without grams, or with an argument too many": [
        (NAME, {"food": "pizza"}),
        (NAME, PIZZA | {"unit": "g"}),
    ],
    "a food that is not text": [
        (NAME, PIZZA | {"food": food}) for food in (7, None, ["pizza"])
    ],
    "grams that are not a number above 0 and up to 5,000 (true is not a number)": [
        (NAME, PIZZA | {"grams": grams})
        for grams in ("150", [150], None, True, 0, -150, 5000.5)
    ],
}


def check_execute(answer) -> Check:
    """Exercise 2: the calls of a turn are validated, then executed or refused."""
    rng = np.random.default_rng(9)
    pool = RIGHT * 4 + sum(WRONG.values(), [])
    turns = [[pool[i] for i in rng.integers(len(pool), size=3)] for _ in range(30)]

    def handles(calls):
        """Whether the right ones of a turn's calls are run, in order, and no others."""
        written = [json.dumps({"name": n, "arguments": kwargs}) for n, kwargs in calls]
        text = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)
        made, count = [], itertools.count(1)

        def lookup(food, grams):
            made.append((NAME, {"food": food, "grams": grams}))
            return {"kcal": len(made)}

        results = ["error" if r.get("error") else r for r in answer(text, lookup)]
        expected = [{"kcal": next(count)} if c in RIGHT else "error" for c in calls]
        return results == expected and made == [call for call in calls if call in RIGHT]

    def handles_each(calls):
        return all(handles([call]) for call in calls)

    properties = {
        "run a right call once, and give its result": lambda: handles_each(RIGHT),
        "give [] for words without a call": lambda: (
            list(answer("A pizza.", None)) == []
        ),
        "refuse a turn that the parser finds malformed": lambda: (
            list(answer('<tool_call>\n{"name":', None)[0]) == ["error"]
        ),
    }
    for what, calls in WRONG.items():
        properties[f"refuse {what}"] = lambda calls=calls: handles_each(calls)
    properties["run the right calls of any turn, in order, and refuse the others"] = (
        lambda: all(map(handles, turns))
    )
    return check_properties(properties)
