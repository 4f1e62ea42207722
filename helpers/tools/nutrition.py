"""The nutrition tool of the food lessons: a food and its grams in, totals out.

The facts stand in data/nutrition.csv, per 100 g, for the 101 classes of Food-101. A
model's arguments are checked and only ever looked up in a table; what is wrong with a
call is an answer to the model, which may do better in its next one.
"""

import csv
import difflib
import functools
import re
import unicodedata

from helpers import runtime
from helpers.tools.calls import Grammar, Malformed
from helpers.tools.tool import Tool, schema_of

TABLE = runtime.ROOT / "data" / "nutrition.csv"
NUTRIENTS = ("kcal", "protein", "fat", "carbohydrate", "sugar", "fibre", "salt")
COLUMNS = (*NUTRIENTS, "serving")
DIGITS = {"kcal": None, "salt": 2}  # all others: 1
LONGEST_NAME = 60
MOST_GRAMS = 5000

SCHEMA = schema_of(
    "lookup_nutrition",
    "Total nutrition of a portion of one food: kcal, and grams of protein, fat, "
    "carbohydrate, sugar, fibre and salt.",
    food={
        "type": "string",
        "description": "Name of the food, for example pizza.",
        "maxLength": LONGEST_NAME,
    },
    grams={
        "type": "number",
        "description": "Weight of the portion in grams.",
        "exclusiveMinimum": 0,
        "maximum": MOST_GRAMS,
    },
)


def lookup_nutrition(food, grams):
    """Looks up the totals of a portion.

    Args:
      food: str, a Food-101 class or one of its other names; case, accents,
        underscores and hyphens do not matter.
      grams: number, more than 0 and at most 5,000.
    Returns:
      {"food", "grams", "kcal", "protein", "fat", "carbohydrate", "sugar", "fibre",
      "salt"}, all but kcal in grams; or {"error"}, with "suggestions" where the food
      is not known.
    """
    return TOOL.call({"food": food, "grams": grams})


def _look_up(food, grams):
    """What the tool runs, with arguments that fit its schema."""
    key = _key(food)
    name = names().get(key)
    if name is None:
        error = f"No food is called {ascii(food)[:LONGEST_NAME]}. Ask for one food by "
        return {"error": error + "name.", "suggestions": list(suggestions(key))}
    row = foods()[name]
    totals = {
        nutrient: round(row[nutrient] * grams / 100, DIGITS.get(nutrient, 1))
        for nutrient in NUTRIENTS
    }
    weight = int(grams) if grams == int(grams) else grams
    return {"food": name, "grams": weight, **totals}


TOOL = Tool(SCHEMA, _look_up)


def canonical(food):
    """The Food-101 class that a name stands for; None: it stands for none."""
    return names().get(_key(food)) if isinstance(food, str) else None


@functools.cache
def foods():
    """The table: {Food-101 class: dict}, per 100 g, "serving" in grams."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    for row in rows.values():
        row.update({column: float(row[column]) for column in COLUMNS})
    return rows


@functools.cache
def names():
    """{every name, as keys are written: the Food-101 class it stands for}."""
    return {
        _key(name): food
        for food, row in foods().items()
        for name in (food, *filter(None, row["aliases"].split(";")))
    }


def suggestions(key):
    """Up to three classes with names like `key`, or with a word of it."""
    known, words = names(), set(key.split())
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.7)
    shared = [name for name in known if words & set(name.split())]
    return tuple(dict.fromkeys(known[name] for name in close + shared))[:3]


def _key(food):
    """How a name is looked up: "Crème_Brûlée" is "creme brulee"."""
    plain = unicodedata.normalize("NFKD", food).casefold()
    letters = (c for c in plain if unicodedata.category(c)[0] != "M")
    return " ".join("".join(letters).replace("_", " ").replace("-", " ").split())


# --- how the course's tiny models call it: short, and read letter by letter ---

_LETTER = r"[^<>\s\ud800-\udfff]"  # no half of a character
_LOOKUP = re.compile(
    rf"<<lookup ({_LETTER}+(?: {_LETTER}+){{0,7}}) ([1-9][0-9]{{0,3}})>>"
)


def _read(text, position):
    call = _LOOKUP.match(text, position, position + 100)
    if call is None:
        raise Malformed("it is not lookup, a food and whole grams, between << and >>")
    return [(TOOL.name, {"food": call[1], "grams": int(call[2])})], call.end()


def _shown(result, call=None):
    if "kcal" in result:
        return f"kcal {result['kcal']}"
    close = result.get("suggestions")
    return f"error, try {close[0].replace('_', ' ')}" if close else "error"


TINY = Grammar(
    name="The tiny model",
    begin=re.compile(r"<<(?![-+.(0-9])"),  # <<48/2=24>> is a calculation
    read=_read,
    write=lambda name, of: f"<<lookup {of['food']} {of['grams']}>>",
    form="<<lookup pizza 150>>",
    between="",
    show=_shown,
)
