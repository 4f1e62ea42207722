"""The trainer of `make scale`: a process that may be killed, and started again.

    python -m scripts.scale_trainer FOLDER --seed 0 --workers 2 --limit 2

It joins the Ray cluster that RAY_ADDRESS names, trains, measures, and writes
`result.json`. Without workers it is the synchronous loop, and needs no Ray.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import time

from helpers.scale import FromWorkers, RunStopped
from helpers.training import Callback
from scripts import scale_task
from scripts.scale_chaos import STOPPED, say


class Noted(Callback):
    """Writes down after every step which pieces it learned from."""

    def __init__(self, path, source):
        self.path, self.source = path, source

    def on_step(self, trainer, row):
        numbers = self.source.learned[-self.source.buffer.pieces :]
        line = {"step": row["step"], "pieces": numbers, "seconds": time.time()}
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


def asynchronous(asked, rollouts):
    """Trains with workers; the table, and what `scripts.scale_model` is held to."""
    from helpers.scale.ray_crew import RayCrew

    pids = asked.folder / "pids"
    make = functools.partial(scale_task.rollouts, asked.seed, _prompts(asked), pids)
    run = f"{asked.folder.name}-{asked.seed}"
    judge = functools.partial(scale_task.judge, asked.folder / "judges")
    crew = RayCrew(make, asked.workers, run, cpus=0.5, judge=judge)
    say(f"{crew.attached} of {asked.workers} workers were there already")
    source = FromWorkers(
        rollouts,
        crew,
        pieces=asked.pieces,
        limit=asked.limit,
        deadline=asked.deadline,
        say=say,
    )
    with source as batches:
        noted = [Noted(asked.folder / "pieces.jsonl", source)]
        trainer = scale_task.trainer(
            rollouts.model, asked.folder, asked.steps, callbacks=noted
        )
        table = trainer.fit(batches, asked.steps)
    crew.end()
    times = {"sampling": source.seconds, "updating": source.updating}
    return table, times | {"published": source.published}


def _prompts(asked):
    return scale_task.SIZES.prompts // asked.pieces


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pieces", type=int, default=1)
    parser.add_argument("--limit", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=90.0)
    parser.add_argument("--questions", type=int, default=500)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    rollouts = scale_task.rollouts(asked.seed, _prompts(asked))
    say(f"trainer {os.getpid()} starts")
    if asked.workers:
        try:
            table, times = asynchronous(asked, rollouts)
        except RunStopped as error:
            say(str(error))
            sys.exit(STOPPED)
    else:
        trainer = scale_task.trainer(rollouts.model, asked.folder, asked.steps)
        table, times = trainer.fit(rollouts, asked.steps), {}
    report = scale_task.measured(rollouts.model, asked.questions)
    last = table[-1]
    result = {
        "staleness": sum(r.get("staleness", 0) for r in table) / len(table),
        "dropped": int(last.get("dropped", 0)),
        "returned": int(last.get("returned", 0)),
        "greedy": report.greedy,
        "low": report.low,
        "high": report.high,
        "n": report.n,
        **times,
    }
    (asked.folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
