"""The simulation against Ray's real workers: one, two and three of them.

    python -m scripts.scale_measured

Two cores cannot sample three times as fast as one. So here nobody computes: a worker
waits two seconds for each piece, more or less, as it would for a chip of its own, and
the trainer waits for its update. Everything between the two is that of `make scale`:
Ray, its actors, the published weights, `FromWorkers` and its buffer. Sampling is the
slower half everywhere.

How long things take comes from one worker that never runs ahead, and from no other run;
all else is predicted from that. Rows go to data/results/async_measured.csv: updates per
second and staleness, predicted and measured.
"""

import csv
import itertools
import os
import random
import statistics
import subprocess
import sys
import time

import numpy as np

from helpers.model import weights
from helpers.scale import FromWorkers
from helpers.scale.simulation import Times, simulate
from scripts.scale import ROOT, Head, environment, settings_of_workers
from scripts.scale_chaos import say
from scripts.scale_task import SFT

TABLE = ROOT / "data" / "results" / "async_measured.csv"
PIECES, SAMPLE, SPREAD, UPDATE = 4, 2.0, 0.25, 1.2
UPDATES, FIRST = 10, 1  # the first is left out: workers start
RUNS = [(workers, limit) for workers in (3, 2, 1) for limit in (0, 2)]


class Waits:
    """Rollouts that take their time and no processor, with always the same content."""

    resample, group, advantage, reward = 0, 2, "mean", "none, but it answers"

    def __init__(self):
        self.model, self.step = weights.load(SFT), 0
        empty = np.zeros((1, 4), np.int32)
        self.asked = {"prompt": empty, "prompt_mask": empty}
        self.prompts = itertools.repeat(self.asked)
        self.metrics, self.samples = {"reward": 0.0}, []

    def get_state(self):
        return {"step": self.step}

    def set_state(self, state):
        self.step = state["step"]

    def count_tied(self, batch):
        """All are tied, and nobody learns from them."""

    def __next__(self):
        shape = SPREAD**-2
        time.sleep(random.Random(self.step).gammavariate(shape, SAMPLE / shape))
        batch = self.asked | {"completion": np.zeros((1, self.group, 8), np.int32)}
        answers = dict.fromkeys(("loss_mask", "logprobs"), np.zeros((1, self.group, 8)))
        return (
            batch | answers | dict.fromkeys(("rewards", "advantages"), np.zeros((1, 2)))
        )


def run(workers: int, limit: int) -> FromWorkers:
    """A real run, by its batch source; what its batches' staleness was is in `ages`."""
    from helpers.scale.ray_crew import RayCrew

    crew = RayCrew(Waits, workers, "measured", cpus=0.1)
    while len(crew.workers()) < workers:
        time.sleep(0.5)
    source = FromWorkers(Waits(), crew, pieces=PIECES, limit=limit, say=say)
    source.ages = []
    with source as batches:
        for _ in range(UPDATES):
            next(batches)
            source.ages.append(batches.metrics["staleness"])
            time.sleep(UPDATE)
    crew.ray.shutdown()
    return source


def seconds_an_update(source: FromWorkers) -> float:
    """On the clock, from one set of new weights to the next."""
    moments = source.published[FIRST:]
    return (moments[-1] - moments[0]) / (len(moments) - 1)


def fitted(source: FromWorkers) -> Times:
    """Step times, from one worker that never runs ahead; handing out is sampling."""
    update, sampling = statistics.mean(source.updating), source.seconds
    return Times(
        sample=(seconds_an_update(source) - update) / PIECES,
        update=update,
        spread=statistics.stdev(sampling) / statistics.mean(sampling),
    )


def rows() -> list[dict]:
    """All runs, predicted and measured."""
    found = {asked: run(*asked) for asked in RUNS}
    times = fitted(found[1, 0])
    made = []
    for (workers, limit), source in sorted(found.items()):
        told = simulate(times, workers, pieces=PIECES, limit=limit, updates=1000)
        row = {"workers": workers, "limit": limit, "pieces": PIECES}
        row |= {"sample": times.sample, "update": times.update}
        row |= {"spread": times.spread}
        row |= {"predicted": told.updates, "measured": 1 / seconds_an_update(source)}
        row |= {"staleness_predicted": told.staleness}
        row |= {"staleness_measured": statistics.mean(source.ages[FIRST:])}
        say(str(row))
        made.append(row)
    return made


def main():
    """Starts a cluster and itself in it; there it runs all, and writes the table."""
    if "RAY_ADDRESS" not in os.environ:
        python = environment()
        with Head(python, ROOT / "build" / "scale-measured.log") as head:
            env = settings_of_workers() | {"RAY_ADDRESS": head.address}
            command = [str(python), "-m", "scripts.scale_measured"]
            sys.exit(subprocess.run(command, env=env).returncode)
    made = rows()
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, made[0], lineterminator="\n")
        writer.writeheader()
        for row in made:
            writer.writerow(
                {n: f"{x:.4g}" if isinstance(x, float) else x for n, x in row.items()}
            )


if __name__ == "__main__":
    main()
