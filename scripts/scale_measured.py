"""The simulation against real runs of one, two and three workers.

    python -m scripts.scale_measured

Two cores cannot sample three times as fast as one, so every piece waits for a judge
(`scale_task.judge`) that takes four seconds and no processor, as one on another machine
does: sampling is the slower half, and workers are what it lacks. Step times come from
one worker that never runs ahead, and from no other run; all else is predicted from
them. Rows go to data/results/async_measured.csv: updates per second and staleness,
predicted and measured.
"""

import csv
import json
import shutil
import statistics
import subprocess

from helpers.scale.simulation import Times, simulate
from scripts.scale import ROOT, Head, environment, settings_of_workers
from scripts.scale_chaos import say

TABLE = ROOT / "data" / "results" / "async_measured.csv"
FOLDER = ROOT / "build" / "scale-measured"
PIECES, WAIT, STEPS = 4, 4.0, 7
FIRST = 2  # updates that compile, and are left out
WORKERS, LIMITS = (1, 2, 3), (0, 2)


def run(python, workers: int, limit: int) -> dict:
    """A real run: what its steps took, and how old its pieces were."""
    folder = FOLDER / f"{workers}-{limit}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asked = {"workers": workers, "limit": limit, "pieces": PIECES, "wait": WAIT}
    asked |= {"steps": STEPS, "questions": 8, "deadline": 300}
    flags = [text for name, x in asked.items() for text in (f"--{name}", str(x))]
    command = [str(python), "-m", "scripts.scale_trainer", str(folder), *flags]
    with Head(python, folder / "ray.log") as head:
        env = settings_of_workers() | {"RAY_ADDRESS": head.address}
        subprocess.run(command, env=env, check=True)
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    ages = [row["staleness"] for row in rows]
    found = json.loads((folder / "result.json").read_text())
    return found | {"staleness": statistics.mean(ages[FIRST:])}


def seconds_an_update(found: dict) -> float:
    """On the clock, from one set of new weights to the next."""
    moments = found["published"][FIRST:]
    return (moments[-1] - moments[0]) / (len(moments) - 1)


def fitted(found: dict) -> Times:
    """Step times, from the run of one worker that never runs ahead.

    Handing a piece out and taking it in counts as sampling.
    """
    update = statistics.mean(found["updating"][FIRST:])
    sampling = found["sampling"][FIRST * PIECES :]
    return Times(
        sample=(seconds_an_update(found) - update) / PIECES,
        update=update,
        spread=statistics.stdev(sampling) / statistics.mean(sampling),
    )


def row(times: Times, workers: int, limit: int, found: dict) -> dict:
    """Predicted and measured, of one run."""
    told = simulate(times, workers, pieces=PIECES, limit=limit, updates=1000)
    return {
        "workers": workers,
        "limit": limit,
        "pieces": PIECES,
        "sample": times.sample,
        "update": times.update,
        "predicted": told.updates,
        "measured": 1 / seconds_an_update(found),
        "staleness_predicted": told.staleness,
        "staleness_measured": found["staleness"],
    }


def main():
    """Runs all of them, and writes the table."""
    python = environment()
    rows, times = [], None
    for limit in LIMITS:
        for workers in WORKERS:
            found = run(python, workers, limit)
            times = times or fitted(found)
            rows.append(row(times, workers, limit, found))
            say(str(rows[-1]))
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        for made in rows:
            text = {
                n: f"{x:.4g}" if isinstance(x, float) else x for n, x in made.items()
            }
            writer.writerow(text)


if __name__ == "__main__":
    main()
