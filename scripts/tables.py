"""Tables of measurements as the scripts keep them: CSV files in data/results."""

import csv
import os
import pathlib
from collections.abc import Iterable


def read(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a table, as text; none where the file is not there yet."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: pathlib.Path, rows: list[dict], fields: Iterable = ()) -> None:
    """Replaces a table by rows, in one step: a cut leaves the old one whole.

    Args:
      path: the file.
      rows: all that it is to hold.
      fields: the names of its columns, in order; () for those of the first row.

    Raises:
      ValueError: a row has a column that the table has not.
    """
    aside = path.with_suffix(".partial")
    with open(aside, "w", newline="", encoding="utf-8") as file:
        names = list(fields) or list(rows[0])
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(aside, path)
