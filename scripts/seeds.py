"""The walk with three seeds (`make seeds`), into `data/results/learning.csv`.

It runs the very notebooks, with COURSE_SEED set, each seed in a build folder of its
own, as `make course` does; so what the table says is what a learner gets. A seed
decides the demonstrations that are drawn, the order of the data and every sampling key.
Killed and run again, it goes on where it was.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "learning.csv"
NOTEBOOKS = ("03", "04", "07", "08", "09", "10", "11")
SEEDS = (0, 1, 2)
FIELDS = ("stage", "seed", "params", "n", "greedy", "low", "high", "pass1", "pass8")


def walk(seed):
    """Runs the notebooks of one seed unless they ran; their rows of results.json."""
    build = ROOT / "build" / "seeds" / str(seed)
    environment = os.environ | {
        "COURSE_BUILD": str(build),
        "COURSE_PRESET": "laptop",
        "COURSE_SEED": str(seed),
        "JAX_PLATFORMS": "cpu",
    }
    print(f"seed {seed}:", flush=True)
    command = [sys.executable, str(ROOT / "notebooks" / "walk.py"), *NOTEBOOKS]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    rows = json.loads((build / "results.json").read_text())
    return [row for row in rows if row["seed"] == seed]


def main():
    """Walks once for every seed, and writes one row per stage and seed."""
    write([row for seed in SEEDS for row in walk(seed)])


def write(rows):
    """The table of the rows of all seeds."""
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    with open(TABLE, "w", newline="") as file:
        names = [*FIELDS, "seconds", "versions", "load"]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        for row in sorted(rows, key=lambda row: (row["stage"], row["seed"])):
            for name, value in row.items():
                if isinstance(value, float):
                    row[name] = round(value, 4)
            writer.writerow(row)
    print(f"{TABLE.relative_to(ROOT)}: {len(rows)} rows")


if __name__ == "__main__":
    main()
