"""A log of meals in one SQLite file, which several windows may use at once.

Days are those of the place where one eats: times are local, with their offset.
"""

import contextlib
import datetime
import json
import pathlib
import sqlite3
from typing import NamedTuple

from helpers import runtime
from helpers.tools.nutrition import MOST_GRAMS, NUTRIENTS

WAIT = 10.0  # seconds for another window to finish writing
_TABLE = """
CREATE TABLE IF NOT EXISTS diary (
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, model TEXT NOT NULL, portion TEXT NOT NULL
)"""


class MealLogError(RuntimeError):
    """The log cannot be used; the message names the cause and the remedy."""


class Meal(NamedTuple):
    """One entry: `portion` is {"food", "grams"} and the nutrients of so much of it.

    id: int. time: ISO 8601, local with offset. model: who recognised it.
    """

    id: int
    time: str
    model: str
    portion: dict


def scaled(portion, grams):
    """The same food in another weight: nutrients in proportion, not rounded.

    Args:
      portion: dict with "food", "grams" and NUTRIENTS, such as the tool's result.
      grams: number, above 0 and at most 5,000.
    Raises:
      ValueError: another number of grams.
    """
    # A field of the page that is empty gives None.
    if not isinstance(grams, int | float) or not 0 < grams <= MOST_GRAMS:
        raise ValueError(f"grams are above 0 and at most {MOST_GRAMS}, not {grams!r}.")
    share = grams / portion["grams"]
    return {
        "food": portion["food"],
        "grams": grams,
        # Of 1e-320 g the share is infinite, and nothing of it is still nothing.
        **{name: portion[name] and portion[name] * share for name in NUTRIENTS},
    }


def total(portions):
    """The sum of portions: {nutrient: amount}, of each of NUTRIENTS."""
    return {name: sum(portion[name] for portion in portions) for name in NUTRIENTS}


class MealLog:
    """The log in one file, made on first use.

    Args:
      path: of the file; None: meals.sqlite in the course's build folder.
    """

    def __init__(self, path=None):
        self.path = pathlib.Path(path or runtime.build_folder() / "meals.sqlite")

    def add(self, portions, model, *, time=None):
        """Logs portions that were eaten, all of them or none.

        Args:
          portions: list of dicts, each the tool's result, or `scaled` from one.
          model: str, who recognised them.
          time: aware datetime; None: now.
        Raises:
          MealLogError: the file cannot be written.
        """
        when = (time or datetime.datetime.now()).astimezone()
        with self._open() as connection:
            for portion in portions:
                row = when.isoformat(timespec="seconds"), model, json.dumps(portion)
                connection.execute("INSERT INTO diary VALUES (NULL, ?, ?, ?)", row)

    def delete(self, meal):
        """Takes the meal with this id out of the log.

        Raises:
          KeyError: there is no such meal (any more).
        """
        with self._open() as connection:
            statement = "DELETE FROM diary WHERE id = ?"
            if not connection.execute(statement, (meal,)).rowcount:
                raise KeyError(
                    f"There is no meal {meal} in the log: it was deleted, perhaps in "
                    "another window."
                )

    def day(self, date=None):
        """The Meals of a day in order; `date` as "2026-11-21", None: today."""
        query = "SELECT * FROM diary WHERE substr(time, 1, 10) = ? ORDER BY id"
        with self._open() as connection:
            rows = connection.execute(query, (str(date or datetime.date.today()),))
            return [Meal(i, t, m, json.loads(portion)) for i, t, m, portion in rows]

    @contextlib.contextmanager
    def _open(self):
        """A connection with the table in it; what it is used for is one transaction."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(
                sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
            ) as connection:
                connection.execute("BEGIN IMMEDIATE")
                with connection:  # commits, or rolls back
                    connection.execute(_TABLE)
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise MealLogError(
                f"The log {self.path.name} cannot be used: {error}. Close other "
                "programs that use it, or move the file away: a new one is made."
            ) from error
