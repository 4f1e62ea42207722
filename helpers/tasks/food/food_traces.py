"""Captions and questions for pictures of food, and conversations that answer them.

Rows are those of `food_pictures` or of `food101`. A demonstration calls the nutrition
tool once for all foods of the picture, and answers with the sum of the results:

    <<lookup pizza 150>>
    kcal 402
    #### 402
"""

import pathlib
import random
import tomllib

from helpers.rewards import food_rewards
from helpers.rewards.answers import MARK
from helpers.tools import nutrition
from helpers.tools.calls import Call
from helpers.tools.tool import run_call

IMAGE = {"type": "image"}
TEXTS = tomllib.loads(pathlib.Path(__file__).with_name("words.toml").read_text("utf-8"))
ONE_FOOD, TWO_FOODS = TEXTS["one_food"], TEXTS["two_foods"]
GRAMS = range(50, 501, 10)


def caption(row, *, seed):
    """One short true sentence about a drawn picture, for pretraining.

    Args:
      row: a row of `food_pictures`.
      seed: int or str, decides which true sentence.
    Returns:
      Text such as "a pizza on a white plate, beside it a fork".
    """
    rng = random.Random(f"caption/{seed}")
    foods = [TEXTS["shown"].get(food, _words(food)) for food in row["foods"]]
    place, table = row["place"], row["table"]
    if not foods:
        what = TEXTS["nothing"].get(place) or f"an empty {place}"
        forms = (f"{what}, no food", f"{what} on a {table} table", f"no food: {what}")
    elif len(foods) == 1:
        (what,) = foods
        forms = (
            f"{what} on a {place}",
            f"{what} on a {place}, on a {table} table",
            f"{row['foods'][0]}: {what} on a {place}",
        )
    else:
        left, right = foods
        forms = (
            f"{left} and {right} on a {place}",
            f"on the left {left}, on the right {right}",
            f"{', '.join(row['foods'])}: two foods on a {place}",
        )
    text = rng.choice(forms)
    if row["beside"] and rng.random() < 0.5:
        text += ", beside it " + " and ".join(f"a {thing}" for thing in row["beside"])
    return text


def shown(text):
    """The messages that show one picture and ask `text` about it."""
    return [{"role": "user", "content": [IMAGE, {"type": "text", "text": text}]}]


def ask(pictures, *, seed):
    """Rows for rollouts: pictures of food, each with a question about its kcal.

    Args:
      pictures: rows of `food_pictures` or of `food101`, with an "image" and at most two
        "foods".
      seed: decides wording and grams.
    Returns:
      New rows in the same order, each with "question" (messages), "text" (the words of
      it), "grams" (of each food in turn), "expected", the kcal of all of it (None where
      there is no food), and the column "portions" of `food_rewards`.
    """
    return [_question(x, random.Random(f"{seed}/{i}")) for i, x in enumerate(pictures)]


def _question(row, rng):
    foods = row["foods"]
    form = rng.choice((ONE_FOOD, ONE_FOOD, TWO_FOODS)[len(foods)])
    grams = [rng.choice(GRAMS) for _ in range(form.count("{"))]
    text, grams = form.format(*grams), grams[: len(foods)]
    portions = [{"food": f, "grams": g} for f, g in zip(foods, grams, strict=True)]
    kcal = [nutrition.lookup_nutrition(**portion)["kcal"] for portion in portions]
    return {
        **row,
        "question": shown(text),
        "grams": grams,
        "expected": round(sum(kcal), 1) if foods else None,
        "text": text,
        "portions": portions,
    }


def pictures(row):
    """The pictures of a row, for `pipeline.prompts`."""
    return [row["image"]]


def alts(rows):
    """A true sentence about each drawn picture, by its bytes, for an alt text."""
    return {row["image"].tobytes(): caption(row, seed=0).capitalize() for row in rows}


def blanked(rows):
    """The same rows with black pictures: what does a model answer that cannot look?"""
    return [{**row, "image": row["image"] * 0} for row in rows]


def demonstration(row, grammar=nutrition.TINY):
    """The messages of a right conversation about a row of `ask`, results included."""
    if not row["portions"]:
        return [*row["question"], _says(food_rewards.NO_FOOD)]
    calls = [
        Call(
            nutrition.TOOL.name,
            {"food": _words(portion["food"]), "grams": portion["grams"]},
        )
        for portion in row["portions"]
    ]
    results = [run_call([nutrition.TOOL], call) for call in calls]
    total = sum(result["kcal"] for result in results)
    return [
        *row["question"],
        grammar.message(calls),
        *grammar.results(results, calls),
        _says(f"{MARK} {total}"),
    ]


def _says(text):
    return {"role": "assistant", "content": text}


def _words(label):
    return label.replace("_", " ")
