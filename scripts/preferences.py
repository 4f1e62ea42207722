"""Preferences with several seeds, into `data/results/preferences.csv`.

    python -m scripts.preferences [--seeds 0 1 2]      about three minutes a seed

It runs notebook 08b, whose assertions must hold with every seed, and collects the rows
that it keeps, so that the table says what a learner gets. All start from the shipped
GRPO model; a seed decides the questions, every sampling key and the order of the pairs.
Seconds are CPU-seconds of training, those of all cores added up.
"""

import argparse
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))

import publish  # noqa: E402
import walk  # noqa: E402

from helpers.course import preference_results  # noqa: E402
from scripts import tables  # noqa: E402

WORK = ROOT / "build" / "preferences"
SHARES = ("greedy", "low", "high", "names_kept")


def run(seed: int) -> list[dict]:
    """The rows of one run of the notebook; raises if one of its cells fails."""
    folder = WORK / str(seed)
    os.environ["COURSE_BUILD"], os.environ["COURSE_SEED"] = str(folder), str(seed)
    os.environ["COURSE_PRESET"] = "laptop"
    publish.prepare_environment()
    publish.execute(walk.read("08b"))
    return json.loads((folder / "preferences.json").read_text())


def add(rows: list[dict]) -> None:
    """Put rows into the table, in the place of older ones of the same seeds.

    The file is replaced in one step.
    """
    table = preference_results.TABLE
    fresh = {str(row["seed"]) for row in rows}
    kept = [row for row in tables.read(table) if row["seed"] not in fresh]
    written = [{name: _written(name, x) for name, x in row.items()} for row in rows]
    order = {row["method"]: i for i, row in enumerate(written)}
    both = sorted(
        [*kept, *written],
        key=lambda row: (order.get(row["method"], len(order)), int(row["seed"])),
    )
    tables.write(table, both, preference_results.FIELDS)


def _written(name, value):
    if name in SHARES:
        return str(round(value, 4))
    return str(round(value, 1)) if name == "seconds" else str(value)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    os.nice(19)  # kernels started from here inherit it
    for seed in parser.parse_args().seeds:
        rows = run(seed)
        add(rows)
        for row in rows:
            print({name: _written(name, x) for name, x in row.items()}, flush=True)


if __name__ == "__main__":
    main()
