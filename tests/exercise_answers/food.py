"""Notebooks 09 and 10: image tokens, tool calls, masks, luck, a spelling, prices."""

import collections
import functools
import itertools

import jax.numpy as jnp
import numpy as np

from helpers.course.stages import stage_folder
from helpers.rewards import food_rewards
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.grammars import HERMES


def execute(text, lookup, *, name=False, keys=False, food=False):
    """The solution of 09-2; a question left out where its switch is True."""
    verdict, results = HERMES.parse(text), []
    if verdict.error:
        return [{"error": "The turn could not be read."}]
    for call in verdict.calls:
        given, grams = call.arguments, call.arguments.get("grams")
        number = isinstance(grams, int | float) and not isinstance(grams, bool)
        good = (
            (name or call.name == "lookup_nutrition")
            and (keys or set(given) == {"food", "grams"})
            and (food or isinstance(given["food"], str))
            and (number and 0 < grams <= 5000)
        )
        wrong = {"error": "This call cannot be run."}
        results.append(lookup(given.get("food"), grams) if good else wrong)
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


START, END = "<start_of_turn>", "<end_of_turn>"


def learned(
    *,
    learns=lambda who: who == "model",
    marks=lambda words, mine: [0, 0, 0] + [mine] * (len(words) + 1) + [0],
):
    """The solution of 09-3, with its usual mistakes as switches."""

    def answer(turns):
        row, mask = [], []
        for who, words in turns:
            head = "model" if who == "model" else "user"
            row += [START, head, "\n", *words, END, "\n"]
            mask += marks(words, int(learns(who)))
        return row, mask

    return answer


def read_from_the_row(turns):
    """The mask of the cell above the exercise: it believes what stands in the row."""
    row, _ = learned()(turns)
    mask, speaking = [], False
    for place, piece in enumerate(row):
        if row[max(place - 3, 0) : place] == [START, "model", "\n"]:
            speaking = True
        mask.append(int(speaking))
        speaking = speaking and piece != END
    return row, mask


def one_by_one(turns):
    """A right alternative: pairs of a piece and its mark, taken apart at the end."""
    marked = []
    for who, words in turns:
        name = "user" if who == "tool" else who
        marked += [(piece, False) for piece in (START, name, "\n")]
        marked += [(piece, who == "model") for piece in (*words, END)]
        marked.append(("\n", False))
    return [piece for piece, _ in marked], [mark for _, mark in marked]


def luck(*, count=lambda n: n * (n - 1), among=lambda n: n * (n - 1)):
    """The solution of 09-4, with its usual mistakes as switches."""

    def answer(foods):
        counts = collections.Counter(foods).values()
        return sum(map(count, counts)) / among(len(foods))

    return answer


def pair_by_pair(foods):
    """A right alternative: every two questions."""
    met = [one == other for one, other in itertools.combinations(foods, 2)]
    return sum(met) / len(met)


def of_each(foods):
    """A right alternative: how many of the others show the same, on average."""
    others = [foods[:i] + foods[i + 1 :] for i in range(len(foods))]
    shares = [o.count(f) / len(o) for f, o in zip(foods, others, strict=True)]
    return np.mean(shares)


@functools.cache
def tokenizer():
    return chat.load_tokenizer(stage_folder("food_sft"))


def spelt(*pieces):
    """The tokens of each piece by itself, one after another."""
    return [token for piece in pieces for token in tokenizer().encode(piece)]


CALL = "<<lookup pizza 150>>"


def mended(*, right=1.0, empty=1.0, price=3.0):
    """A solution of 10-4, with its usual mistakes as switches."""

    def reward(prompts, completions, portions, **_):
        solved = food_rewards.solved([], completions, portions)
        return [
            (right if plate else empty) * done
            - (price if plate and not trace.calls else 0.0)
            for trace, plate, done in zip(completions, portions, solved, strict=True)
        ]

    return reward


def by_what_was_done(prompts, completions, portions, **_):
    """A price for each of the four ends that a conversation can come to."""
    paid = []
    for trace, plate in zip(completions, portions, strict=True):
        if not plate:
            paid.append(0.5 if food_rewards.declined([], [trace], [plate])[0] else -0.5)
        elif not trace.calls:
            paid.append(-9.0)
        else:
            paid.append(food_rewards.solved([], [trace], [plate])[0] / 2)
    return paid


def width(given):
    return given[0].shape[1]


def squares(patches, columns, n):
    """(rows of squares, n, squares in a row, n, width)."""
    return patches.reshape(-1, n, columns // n, n, patches.shape[1])


def pooled(patches, columns, n):
    return squares(patches, columns, n).mean(axis=(1, 3)).reshape(-1, patches.shape[1])


def row_by_row(patches, columns, n):
    grid = patches.reshape(len(patches) // columns, columns, -1)
    return np.array(
        [
            grid[top : top + n, left : left + n].mean(axis=(0, 1))
            for top in range(0, len(grid), n)
            for left in range(0, columns, n)
        ]
    )


WRONG = {
    "09-1": {
        "strips of a row": lambda patches, columns, n: patches.reshape(
            -1, n * n, patches.shape[1]
        ).mean(axis=1),
        "sums": lambda *given: (
            squares(*given).sum(axis=(1, 3)).reshape(-1, width(given))
        ),
        "square pictures only": lambda patches, columns, n: pooled(
            patches, int(len(patches) ** 0.5), n
        ),
        "rows for columns": lambda patches, columns, n: pooled(
            patches, len(patches) // columns, n
        ),
    },
    "09-2": {
        "parses only": parses_only,
        "any tool": careless(name=True),
        "any keys": careless(keys=True, food=True),
        "any food": careless(food=True),
    },
    "09-3": {
        "read from the row": read_from_the_row,
        "the tool learned, too": learned(learns=lambda who: who != "user"),
        "everything": learned(learns=lambda who: True),
        "no end of turn": learned(
            marks=lambda words, mine: [0, 0, 0] + [mine] * len(words) + [0, 0]
        ),
    },
    "09-4": {
        "one in sixteen": lambda foods: 1 / 16,
        "its own as well": luck(count=lambda n: n * n, among=lambda n: n * n),
        "its own counted once": luck(count=lambda n: n * n),
        "of all": luck(among=lambda n: n * n),
    },
    "10-1": {
        "the usual ones": spelt(CALL),
        "a text": CALL,
        "another food": spelt(*"<<lookup sushi 150>>"),
        "a blank more": spelt("<<lookup", " ", " pizza", " 150>>"),
    },
    "10-2": {
        "all calls": 8 * 15 / 200,
        "less": 0.6,
        "more": 0.7,
        "minus": -0.65,
    },
    "10-3": {
        "the right one": ["<<lookup pizza 150>>", "#### 402"],
        "a text": "#### no food",
        "looks up sushi": ["<<lookup sushi 150>>", "#### 218"],
        "looks up, then lies": ["<<lookup pizza 150>>", "#### no food"],
    },
    "10-4": {
        "a point for silence": mended(right=0, empty=0, price=1.0),
        "being right alone": mended(price=0.0),
        "no word of empty plates": mended(empty=0),
        "a wrong number is paid": mended(right=0),
    },
}

RIGHT = {
    "09-1": {
        "row by row": row_by_row,
        "in JAX": lambda patches, *sizes: pooled(jnp.asarray(patches), *sizes),
        "lists": lambda *given: [list(token) for token in pooled(*given)],
    },
    "09-2": {"word by word": execute, "the schema": by_the_helper},
    "09-3": {"switches": learned(), "one by one": one_by_one},
    "09-4": {"counts": luck(), "pair by pair": pair_by_pair, "of each": of_each},
    "10-1": {
        "letters": spelt(*CALL),
        "a tuple": tuple(spelt("<<", *"lookup", " pizza 150>>")),
    },
    "10-2": {"rounded": 0.65, "exact": 8 * 15 / 185},
    "10-3": {"a number": ["#### 500"], "broken off": ["<<lookup pizza", "#### 1"]},
    "10-4": {
        "two parts": mended(),
        "just enough": mended(right=0.1, empty=0.1, price=2.1),
        "by what was done": by_what_was_done,
    },
}
