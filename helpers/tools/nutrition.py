"""The nutrition tool of the food lessons: a food and its grams in, totals out.

The facts stand in data/nutrition.csv, per 100 g, for the 101 classes of Food-101; they
are served from SQLite. What a model sends is hostile input: it is checked, bound as a
parameter and never made part of a query, the database is opened read-only, and what is
wrong with a call is told to the model, which may do better in its next one.
"""

import contextlib
import csv
import difflib
import functools
import hashlib
import io
import os
import sqlite3
import unicodedata
import uuid

from helpers import runtime
from helpers.tools import tiny_calls
from helpers.tools.tool import Tool

TABLE = runtime.ROOT / "data" / "nutrition.csv"
NUTRIENTS = ("kcal", "protein", "fat", "carbohydrate", "sugar", "fibre", "salt")
COLUMNS = (*NUTRIENTS, "serving")
DIGITS = {"kcal": None, "salt": 2}  # all others: 1
LONGEST_NAME = 60
MOST_GRAMS = 5000

SCHEMA = {
    "type": "function",
    "function": {
        "name": "lookup_nutrition",
        "description": "Total nutrition of a portion of one food: kcal, and grams of "
        "protein, fat, carbohydrate, sugar, fibre and salt.",
        "parameters": {
            "type": "object",
            "properties": {
                "food": {
                    "type": "string",
                    "description": "Name of the food, for example pizza.",
                    "maxLength": LONGEST_NAME,
                },
                "grams": {
                    "type": "number",
                    "description": "Weight of the portion in grams.",
                    "exclusiveMinimum": 0,
                    "maximum": MOST_GRAMS,
                },
            },
            "required": ["food", "grams"],
            "additionalProperties": False,
        },
    },
}


def lookup_nutrition(food, grams):
    """Look up the totals of a portion.

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
    if key is None:
        return _error(
            f"food must be the name of a food, as text of 1 to {LONGEST_NAME} letters."
        )
    query = f"SELECT foods.name, {', '.join(NUTRIENTS)} FROM foods "
    query += "JOIN names ON names.food = foods.name WHERE names.name = ?"
    path = database()
    with contextlib.closing(_open(path)) as connection:
        row = connection.execute(query, (key,)).fetchone()
    if row is None:
        close = list(suggestions(key))
        named = ascii(food)[:LONGEST_NAME]
        error = _error(f"No food is called {named}. Ask for one food by name.")
        return error | {"suggestions": close}
    totals = (per_100_g * grams / 100 for per_100_g in row[1:])
    rounded = {
        name: round(total, DIGITS.get(name, 1))
        for name, total in zip(NUTRIENTS, totals, strict=True)
    }
    weight = int(grams) if grams == int(grams) else grams
    return {"food": row[0], "grams": weight, **rounded}


TOOL = Tool(SCHEMA, _look_up)

# How the course's tiny models call it.
TINY_SHORT = tiny_calls.Short("lookup", SCHEMA, example="pizza 150", field="kcal")
TINY = tiny_calls.grammar([TINY_SHORT])


def canonical(food):
    """Return the Food-101 class that a name stands for; None: it stands for none."""
    return names().get(_key(food))


def _table():
    """The bytes of the table as it is now; caches keep what was made of them."""
    return _once(TABLE.read_bytes())


@functools.lru_cache(maxsize=4)
def _once(table):
    return table  # the same object for equal bytes: caches hold no copies


def foods():
    """The table as it is now: {Food-101 class: dict}, per 100 g, "serving" in grams.

    Raises:
      FileNotFoundError: data/nutrition.csv is missing.
    """
    return _foods(_table())


@functools.lru_cache(maxsize=4)
def _foods(table):
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8"), newline="")))
    for row in rows:
        row.update({column: float(row[column]) for column in COLUMNS})
        row["aliases"] = tuple(filter(None, row["aliases"].split(";")))
    return {row["name"]: row for row in rows}


def names():
    """Return {every name, as keys are written: the Food-101 class it stands for}.

    Raises:
      ValueError: a name stands for two.
    """
    return _names(_table())


@functools.lru_cache(maxsize=4)
def _names(table):
    found: dict[str, str] = {}
    for food, row in _foods(table).items():
        for name in (food, *row["aliases"]):
            if found.setdefault(_key(name), food) != food:
                raise ValueError(
                    f"{name!r} stands for both {found[_key(name)]} and {food} in "
                    f"{TABLE}. Take it out of the aliases of one."
                )
    return found


def suggestions(key):
    """Return up to three classes with names like `key`, or with a word of it."""
    return _suggestions(_table(), key)


@functools.lru_cache(maxsize=1024)
def _suggestions(table, key):
    known, words = _names(table), set(key.split())
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.7)
    shared = [name for name in known if words & set(name.split())]
    return tuple(dict.fromkeys(known[name] for name in close + shared))[:3]


def database():
    """Return the path of the SQLite file, built from the table on first use.

    Its name holds a hash of the table, so that a changed table makes a new file, of the
    very bytes that were hashed. It is written to the side and renamed: no process ever
    opens half of one.

    Raises:
      OSError: the build folder cannot be written to.
    """
    table = _table()
    digest = hashlib.sha256(table).hexdigest()[:12]
    path = runtime.build_folder() / f"nutrition-{digest}.sqlite"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder: `make grade` lets no process move files between folders.
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            _build(aside, table)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    return path


def _build(path, table):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        columns = ", ".join(f"{column} REAL NOT NULL" for column in COLUMNS)
        connection.execute(f"CREATE TABLE foods (name TEXT PRIMARY KEY, {columns})")
        connection.execute("CREATE TABLE names (name TEXT PRIMARY KEY, food TEXT)")
        marks = ", ".join("?" * (1 + len(COLUMNS)))
        rows = [(f, *(row[c] for c in COLUMNS)) for f, row in _foods(table).items()]
        connection.executemany(f"INSERT INTO foods VALUES ({marks})", rows)
        pairs = _names(table).items()
        connection.executemany("INSERT INTO names VALUES (?, ?)", pairs)


def _open(path):
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _key(food):
    """How a name is stored: "Crème_Brûlée" is "creme brulee"; None: no name at all."""
    if not isinstance(food, str) or not 0 < len(food) <= LONGEST_NAME:
        return None
    plain = unicodedata.normalize("NFKD", food).casefold()
    kinds = [unicodedata.category(character)[0] for character in plain]
    if "C" in kinds:  # control characters, surrogates, what is not printed
        return None
    letters = (c for c, kind in zip(plain, kinds, strict=True) if kind != "M")
    return (
        " ".join("".join(letters).replace("_", " ").replace("-", " ").split()) or None
    )


def _error(message):
    return {"error": message}
