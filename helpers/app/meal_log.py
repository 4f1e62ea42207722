"""A log of meals in one SQLite file, which several windows may use at once.

A meal stores the tool's result for the grams that were looked up. Its nutrients are in
proportion to the grams it has now, so an edit can be undone exactly. Days are those of
the place where one eats: times are local, with their offset.
"""

import contextlib
import datetime
import pathlib
import sqlite3
from typing import NamedTuple

from helpers import runtime
from helpers.tools.nutrition import MOST_GRAMS, NUTRIENTS

WAIT = 10.0  # seconds for another window to finish writing
_TABLE = f"""
CREATE TABLE IF NOT EXISTS meals (
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, food TEXT NOT NULL, model TEXT NOT NULL,
  grams REAL NOT NULL, per REAL NOT NULL, {" REAL NOT NULL, ".join(NUTRIENTS)} REAL NOT
  NULL
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
    _check_grams(grams)
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

    def add(self, portion, model, *, grams=None, time=None):
        """Log a portion.

        Args:
          portion: the tool's result.
          model: str, who recognised it.
          grams: what was eaten of it; None: what was looked up.
          time: aware datetime; None: now.
        Returns:
          The new Meal's id.
        Raises:
          ValueError: grams that nobody eats.
          MealLogError: the file cannot be written.
        """
        grams = portion["grams"] if grams is None else grams
        return self.add_all([(portion, grams)], model, time=time)[0]

    def add_all(self, eaten, model, *, time=None):
        """Log several (portion, grams eaten of it), all of them or none; their ids.

        Takes and raises what `add` does.
        """
        when = (time or datetime.datetime.now()).astimezone()
        ids = []
        with self._open() as connection:
            for portion, grams in eaten:
                _check_grams(grams)
                row = [when.isoformat(timespec="seconds"), portion["food"], model]
                row += [grams, portion["grams"], *(portion[n] for n in NUTRIENTS)]
                statement = f"INSERT INTO meals VALUES (NULL{', ?' * len(row)})"
                ids.append(connection.execute(statement, row).lastrowid)
        return ids

    def edit(self, meal, grams):
        """Correct the weight of the meal with this id.

        Raises:
          ValueError: another number of grams than 0 to 5,000.
          KeyError: there is no such meal (any more).
        """
        _check_grams(grams)
        self._change("UPDATE meals SET grams = ? WHERE id = ?", (grams, meal))

    def delete(self, meal):
        """Take the meal with this id out of the log.

        Raises:
          KeyError: there is no such meal (any more).
        """
        self._change("DELETE FROM meals WHERE id = ?", (meal,))

    def day(self, date=None):
        """The Meals of a day in order; `date` as "2026-11-21", None: today."""
        query = "SELECT * FROM meals WHERE substr(time, 1, 10) = ? ORDER BY id"
        with self._open() as connection:
            rows = connection.execute(query, (str(date or datetime.date.today()),))
            return [_meal(*row) for row in rows]

    def totals(self, date=None):
        """{nutrient: amount} of all meals of a day."""
        return total([meal.portion for meal in self.day(date)])

    def _change(self, statement, values):
        with self._open() as connection:
            if not connection.execute(statement, values).rowcount:
                raise KeyError(
                    f"There is no meal {values[-1]} in the log: it was deleted, perhaps"
                    " in another window."
                )

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


def _check_grams(grams):
    # A field of the page that is empty gives None.
    if not isinstance(grams, int | float) or not 0 < grams <= MOST_GRAMS:
        raise ValueError(f"grams are above 0 and at most {MOST_GRAMS}, not {grams!r}.")


def _meal(identity, time, food, model, grams, per, *numbers):
    nutrients = dict(zip(NUTRIENTS, numbers, strict=True))
    looked_up = {"food": food, "grams": per} | nutrients
    return Meal(identity, time, model, scaled(looked_up, grams))
