"""What the walk teaches with several seeds, into `data/results/learning.csv`.

`make seeds` walks with three seeds (scripts/assertions.py runs the notebooks and calls
this); so what the table says is what a learner gets. A seed decides the demonstrations
that are drawn, the order of the data and every sampling key.
"""

import json
import pathlib

from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "learning.csv"
SEEDS = (0, 1, 2)  # whose results README and the notebooks quote
RESULT = ("stage", "seed", "params", "n", "greedy", "low", "high", "pass1", "pass8")
FIELDS = (*RESULT, "seconds", "versions", "load")


def rows_of(build: pathlib.Path, seed: int) -> list[dict]:
    """The rows of one seed in a build folder's results.json, as the table writes them.

    Empty while no stage has been measured there.
    """
    file = build / "results.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    return [
        {name: _written(row[name]) for name in FIELDS}
        for row in rows
        if row["seed"] == seed
    ]


def _written(value) -> str:
    return str(round(value, 4) if isinstance(value, float) else value)


def add(rows: list[dict]) -> None:
    """Put rows into the table, in the place of older ones of the same stage and seed.

    The file is replaced in one step.
    """
    fresh = {(row["stage"], row["seed"]) for row in rows}
    old = tables.read(TABLE)
    kept = [row for row in old if (row["stage"], row["seed"]) not in fresh]
    rank = lambda row: (row["stage"], int(row["seed"]))  # noqa: E731
    tables.write(TABLE, sorted([*kept, *rows], key=rank), FIELDS)
