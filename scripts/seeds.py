"""What the course teaches with several seeds: `make seeds`.

    python -m scripts.seeds [--seeds 0 1 2]

Runs the walk once for each seed in build/seeds/<seed>. The results go into
data/results/learning.csv. A seed decides which demonstrations are drawn, the order of
the data, and every sampling key. Stopped and started again, it goes on where it was.
"""

import argparse
import json
import os
import pathlib
import sys

from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))

import publish  # noqa: E402
import walk  # noqa: E402

RESULTS = ROOT / "data" / "results"
LEARNING = RESULTS / "learning.csv"
SEEDS = (0, 1, 2)
FIELDS = (
    *("stage", "seed", "params", "n", "greedy", "low", "high", "pass1", "pass8"),
    *("seconds", "versions", "load"),
)


def run(seed: int) -> list[str]:
    """Runs the notebooks with one seed; returns the names of those that failed."""
    build = ROOT / "build" / "seeds" / str(seed)
    os.environ |= {
        "COURSE_BUILD": str(build),
        "COURSE_SEED": str(seed),
        "COURSE_PRESET": "laptop",
    }
    publish.prepare_environment()
    failed = walk.walk(walk.WALK, walk.fingerprint())
    stages = rounded(json.loads((build / "results.json").read_text()))
    rows = [{name: row[name] for name in FIELDS} for row in stages]
    tables.put(LEARNING, rows, ("stage", "seed"), FIELDS)
    return [f"{error.name} with seed {seed}" for error in failed.values()]


def rounded(rows: list[dict]) -> list[dict]:
    """The rows with numbers rounded to four digits after the point."""
    return [
        {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
        for row in rows
    ]


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    os.nice(19)  # kernels started from here inherit it
    failed = [name for seed in parser.parse_args().seeds for name in run(seed)]
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
