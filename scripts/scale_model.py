"""The simulation against what `make scale` measured, and what it says of more workers.

    python -m scripts.scale_model [--seed 0]        in the environment of make scale

Step times are those of the runs `lockstep` and `undisturbed`; from them the simulation
must find how fast each was, and how stale. Where one half waits for the other all the
time, that is no more than to say which half. Then, with those of `undisturbed`, 1 to
512 workers, synchronous and asynchronous, with 0 to 1 preemptions of a worker an hour,
into data/results/async_model.csv. There an update takes 64 pieces, and the trainer is
taken to have grown with it: an update lasts as long as here, where it takes one.
"""

import argparse
import csv
import dataclasses
import json
import statistics

from helpers.scale.simulation import Times, simulate
from scripts.scale import ROOT, RUNS

TABLE = ROOT / "data" / "results" / "async_model.csv"
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PIECES, RESTART = 64, 60.0
PREEMPTIONS = (0.0, 0.1, 1.0)  # of a worker, per hour
LIMITS = {"synchronous": 0, "asynchronous": 2}
FIRST = 4  # updates that compile, and are left out
UPDATES = 400  # fewer are noise where preemptions are few


def times(found: dict) -> Times:
    """What the steps of a measured run took, its first ones left out."""
    sampling, updating = found["sampling"][FIRST:], found["updating"][FIRST:]
    mean = statistics.mean(sampling)
    return Times(
        sample=mean,
        update=statistics.mean(updating),
        spread=statistics.stdev(sampling) / mean,
        restart=RESTART,
    )


def compared(name: str, found: dict) -> dict:
    """Updates per second and staleness of a measured run, predicted and measured."""
    workers, limit = RUNS[name][:2]
    told = simulate(times(found), workers, limit=limit, updates=1000)
    moments = found["published"][FIRST:]
    rate = (len(moments) - 1) / (moments[-1] - moments[0])
    return {
        "predicted": told.updates,
        "measured": rate,
        "error": told.updates / rate - 1,
        "staleness predicted": told.staleness,
        "staleness measured": found["staleness"],
    }


def rows(measured: Times) -> list[dict]:
    """The predictions for many workers."""
    made = []
    for name, limit in LIMITS.items():
        for rate in PREEMPTIONS:
            for workers in WORKERS:
                told = simulate(
                    measured,
                    workers,
                    pieces=PIECES,
                    limit=limit,
                    preemptions=rate,
                    updates=UPDATES,
                )
                key = {"mode": name, "preemptions": rate, "workers": workers}
                made.append(key | dataclasses.asdict(told))
    return made


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    for name in ("lockstep", "undisturbed"):
        place = ROOT / "build" / "scale-runs" / str(seed) / name / "result.json"
        if not place.exists():
            print(f"{name} was not run: python -m scripts.scale --runs {name}")
            continue
        found = json.loads(place.read_text())
        measured = times(found)
        print(name, measured)
        for what, value in compared(name, found).items():
            print(f"  {what}: {value:.3f}")
    made = rows(measured)
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, made[0], lineterminator="\n")
        writer.writeheader()
        for row in made:
            writer.writerow(
                {n: f"{x:.4g}" if isinstance(x, float) else x for n, x in row.items()}
            )


if __name__ == "__main__":
    main()
