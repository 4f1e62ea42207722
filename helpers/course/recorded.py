"""Runs that are too long for a notebook: tables that scripts wrote, read and drawn."""

import csv

from helpers import runtime

FOLDER = runtime.ROOT / "data" / "results"


def rows(table: str) -> list[dict]:
    """The rows of `data/results/<table>.csv`, in its order, with numbers as numbers.

    Args:
      table: a file's name without its ending, such as "family".

    Raises:
      FileNotFoundError: there is no such table.
    """
    with open(FOLDER / f"{table}.csv", newline="") as file:
        return [
            {name: _number(text) for name, text in row.items()}
            for row in csv.DictReader(file)
        ]


def spread(
    table: list[dict], by: str, column: str
) -> dict[str, tuple[float, float, float]]:
    """A column over the seeds: (mean, lowest, highest) by name, as `bars` draws it.

    Args:
      table: from `rows`.
      by: the column that names the runs; they keep the order in which they come.
      column: the numbers.
    """
    found: dict[str, list[float]] = {}
    for row in table:
        found.setdefault(row[by], []).append(row[column])
    return {
        name: (sum(values) / len(values), min(values), max(values))
        for name, values in found.items()
    }


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
