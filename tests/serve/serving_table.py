"""The table of what engines do with our models, data/results/serving.csv."""

import csv
import os
import sys

import engines
from bench import write

TABLE = engines.ROOT / "data" / "results" / "serving.csv"


def rows_of(engine, version, model):
    """A function (what, value, n, note) -> a row of this model, printed."""

    def row(what, value, n, note=""):
        made = {"engine": engine, "version": version.split("==")[-1], "model": model}
        made |= {"what": what, "value": float(f"{value:.3g}"), "n": n}
        made |= {"note": " ".join(note.split()), "load": round(os.getloadavg()[0], 1)}
        print(made, file=sys.stderr, flush=True)
        return made

    return row


def record(rows, table=TABLE):
    """Puts rows into the table, in place of those of the same engine and model."""
    kept = []
    if table.exists():
        with table.open(newline="") as file:
            kept = list(csv.DictReader(file))
    new = {(row["engine"], row["model"]) for row in rows}
    kept = [row for row in kept if (row["engine"], row["model"]) not in new]
    write(kept + rows, table)
