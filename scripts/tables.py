"""The tables of measurements in data/results: CSV files, replaced in one step."""

import contextlib
import csv
import fcntl
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence


def read(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a table as text; an empty list where the file does not exist."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: pathlib.Path, rows: list[dict], fields: Iterable = ()) -> None:
    """Replaces a table in one step, so that a kill leaves the old one whole.

    Args:
      path: the file.
      rows: all rows of the new table.
      fields: the columns in order; () for those of the first row.

    Raises:
      ValueError: a row has a column that the table does not have.
    """
    partial = path.with_suffix(".partial")
    with open(partial, "w", newline="", encoding="utf-8") as file:
        names = list(fields) or list(rows[0])
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(partial, path)


def put(
    path: pathlib.Path, rows: list[dict], key: Sequence[str], fields: Iterable = ()
) -> None:
    """Puts rows into a table, each in the place of an older row with the same key.

    Two processes that write at the same moment both keep their rows.

    Args:
      path: the file, made where it does not exist.
      rows: the new rows.
      key: the columns that identify a row.
      fields: see `write`.
    """
    with _locked(path):
        table = {_key(row, key): row for row in read(path)}
        table |= {_key(row, key): row for row in rows}
        write(path, list(table.values()), fields)


def has(path: pathlib.Path, **key) -> bool:
    """Whether a table has a row with these values, so that a run can be skipped."""
    wanted = {(name, str(value)) for name, value in key.items()}
    return any(wanted <= row.items() for row in read(path))


def _key(row, key):
    return tuple(str(row[name]) for name in key)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    with open(path.with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
