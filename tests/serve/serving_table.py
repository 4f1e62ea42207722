"""The table of what engines do with our models, data/results/serving.csv."""

import os
import sys

import engines

from scripts import tables

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


def record(rows, table=TABLE, key=("engine", "model")):
    """Puts rows into a table, in place of those of the same key."""
    new = {tuple(row[name] for name in key) for row in rows}
    old = tables.read(table)
    others = [row for row in old if tuple(row[name] for name in key) not in new]
    tables.write(table, others + rows)
