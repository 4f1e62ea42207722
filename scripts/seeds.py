"""The walk with three seeds (`make seeds`), into `data/results/learning.csv`.

It runs the very notebooks, with COURSE_SEED set, each seed in a build folder of its
own; so what the table says is what a learner gets. A seed decides the demonstrations
that are drawn, the order of the data and every sampling key. Killed and run again, it
goes on where it was.
"""

import csv
import json
import os
import pathlib
import platform
import subprocess
import sys
from importlib import metadata

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "learning.csv"
NOTEBOOKS = ("03_measuring", "04_sft", "07_grpo", "08_gspo", "11_distillation")
SEEDS = (0, 1, 2)
FIELDS = ("stage", "seed", "params", "n", "greedy", "low", "high", "pass1", "pass8")


def walk(seed):
    """Runs the notebooks of one seed, and returns their rows of results.json."""
    build = ROOT / "build" / "seeds" / str(seed)
    environment = os.environ | {
        "COURSE_BUILD": str(build),
        "COURSE_PRESET": "laptop",
        "COURSE_SEED": str(seed),
        "JAX_PLATFORMS": "cpu",
    }
    for name in NOTEBOOKS:
        done = build / f"{name}.ipynb"
        if done.exists():
            continue
        print(f"seed {seed}: {name}", flush=True)
        command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute"]
        command += ["--log-level", "WARN", "--output-dir", str(build)]
        source = ROOT / "notebooks" / f"{name}.ipynb"
        subprocess.run([*command, str(source)], check=True, cwd=ROOT, env=environment)
    return json.loads((build / "results.json").read_text())


def main():
    """Walks once for every seed, and writes one row per stage and seed."""
    versions = " ".join(f"{p} {metadata.version(p)}" for p in ("jax", "flax", "optax"))
    versions += f" python {platform.python_version()}"
    rows = []
    for seed in SEEDS:
        done = walk(seed)
        load = f"{os.getloadavg()[2]:.1f}"
        rows += [row | {"versions": versions, "load": load} for row in done]
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
