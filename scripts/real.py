"""A real model trained on two cores, measured into `data/results/real.csv`.

    python -m scripts.real [--seeds 0 1 2] [--stages base sft grpo] [--tasks gsm8k]

A stage is the last section of its notebook, as it stands there, with the preset
laptop-real: SmolLM2-135M and generated problems of one to three steps; SFT alone, for
as long as SFT and GRPO together, is in `scripts.real_sft`, GRPO on problems of one step
in `scripts.real_one_step`, those with a calculator in `scripts.real_tool`, those on
GSM8K itself in `scripts.real_gsm8k`. Before the first stage and after each the model is
measured on held-out problems, level by level: greedily on 200 of each, and with eight
samples on 50 of them; as it comes also in the wording that suits it best on training
problems, and shown an example and stopped after the line that is graded, for it goes
on. With COURSE_GSM8K, the folder of GSM8K's files, on its test questions too: all
1,319, which take an hour or two of a core for each stage, or as many of the first as
COURSE_GSM8K_ROWS says.

Everything is kept in build/real/<seed>: stopped and started again, a run goes on where
it was, and what was measured of the same adapters is not measured again. Nor is the
model as it comes, where the table has it: it would give the same.
"""

import argparse
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import platform
import sys
from collections.abc import Callable
from importlib import metadata

import jax

from helpers import runtime
from helpers.evaluation.evaluator import (
    FINAL_LINE,
    WORDINGS,
    by_wording,
    evaluate,
    with_wording,
)
from helpers.generation.calculator_use import CalculatorUse
from helpers.recipes import maths, presets
from helpers.recipes.maths import frozen_dtype
from helpers.tasks.maths import gsm8k, word_problems
from scripts import tables
from scripts.real_stages import STAGES, NotTrained, require_trained

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "real.csv"
ANSWERED = "real_right.csv"  # beside it: which of the questions were answered right
CURVES = "real_curves.csv"  # and how each run on rewards went
WORK = ROOT / "build" / "real"


# As it comes: asked as the others; in the wording that suits it; and shown an example
# first, and stopped after the line that is graded.
BASE = ("base", "base_asked_well", "base_stopped")
LEVELS = {1: "one_step", 2: "two_step", 3: "three_step"}
CHOSEN_ON = 60  # training problems, on which the wording for the base is chosen
N, SAMPLED = 200, 50  # held-out problems of a level: answered greedily, and sampled
KEY = ("model", "stage", "task", "seed")
FIELDS = (
    *KEY,
    *("n", "greedy", "low", "high", "lenient", "pass1", "pass8", "truncated"),
    *("seconds", "versions", "load"),
)
# A 1 or 0 for each question, in their order: read strictly, and leniently. Rows of
# before the 28th of November 2026 lack the second.
ONE_BY_ONE = (*KEY, "right", "right_lenient")


def tasks() -> dict[str, list[dict]]:
    """The held-out rows of each task, by its name in the table."""
    rows = {
        name: word_problems.generate(N, seed=99, levels=(level,), split="test")
        for level, name in LEVELS.items()
    }
    if folder := os.environ.get("COURSE_GSM8K"):
        most = int(os.environ.get("COURSE_GSM8K_ROWS", 0)) or None
        rows["gsm8k"] = gsm8k.load(folder, "test")[:most]
    return rows


def asked_well(there) -> Callable[[list[dict]], list[dict]]:
    """What puts rows into the wording that suits the model as it comes.

    Chosen on training problems of all levels in turn.
    """
    size = there.preset
    found = by_wording(
        there.policy,
        there.tokenizer,
        there.train[:CHOSEN_ON],
        max_tokens=size.completion_tokens,
        batch=size.prompts * size.group,
        buckets=(size.prompt_tokens, 2 * size.prompt_tokens),
    )
    for name, report in found.items():
        print(f"  asked as {name!r}: {report}", flush=True)
    return lambda rows: with_wording(rows, WORDINGS[next(iter(found))])


def as_it_comes(there) -> dict:
    """For each of BASE what makes its wording, None the others', and where to stop."""
    shown = functools.partial(with_wording, wording=WORDINGS["example"])
    well = functools.partial(asked_well, there)
    ways = (None, None), (well, None), (lambda: shown, FINAL_LINE)
    return dict(zip(BASE, ways, strict=True))


def measure(there, task: str, rows, tools=None, stop=None) -> dict:
    """The columns of both tables that an evaluation on one task fills."""
    size = there.preset
    settings = {
        "max_tokens": size.completion_tokens,
        "buckets": (size.prompt_tokens, 2 * size.prompt_tokens),
        "batch": size.prompts * size.group,
        "tools": tools,
        "stop": stop,
    }
    if task == "gsm8k":
        settings |= {"max_tokens": 256, "buckets": (256, 512), "batch": at_once()}
    greedy = evaluate(there.policy, there.tokenizer, rows, samples=0, **settings)
    settings["batch"] = size.prompts
    few = evaluate(there.policy, there.tokenizer, rows[:SAMPLED], **settings)
    figures = {
        name: round(getattr(greedy, name), 4)
        for name in ("greedy", "low", "high", "lenient", "truncated")
    }
    figures |= {name: round(getattr(few, name), 4) for name in ("pass1", "pass8")}
    print(f"  {task}: {greedy}\n  sampled: {few}", flush=True)
    read_as = {"right": "strict", "right_lenient": "lenient"}
    bits = {
        name: "".join(str(int(right)) for right in greedy.column(how))
        for name, how in read_as.items()
    }
    return figures | {"n": greedy.n} | bits


def at_once() -> int:
    """GSM8K's questions that are answered together."""
    return 64 if jax.default_backend() == "cpu" else 256


def measured_with() -> str:
    """What a row says it was measured with: versions, and a device that is no CPU."""
    said = [f"{name} {metadata.version(name)}" for name in ("jax", "flax", "optax")]
    said.append(f"python {platform.python_version()}")
    if jax.default_backend() != "cpu":
        said.append(f"on {jax.devices()[0].device_kind}")
    return " ".join(said)


def read() -> list[dict]:
    """The rows of the table so far."""
    return tables.read(TABLE)


@contextlib.contextmanager
def alone():
    """Within it no other run writes to the tables."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "tables.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write(row: dict) -> None:
    """Puts a row into both tables, in the place of an earlier one of the same key.

    Two runs may write at the same moment, and neither loses a row.
    """
    with alone():
        _write(row)


def _write(row):
    same = [str(row[name]) for name in KEY]
    order = [*BASE, *STAGES]
    for path, fields in (TABLE, FIELDS), (TABLE.with_name(ANSWERED), ONE_BY_ONE):
        table = tables.read(path)
        table = [old for old in table if [old[name] for name in KEY] != same]
        table.append({name: str(row[name]) for name in fields})
        table.sort(
            key=lambda r: (r["model"], order.index(r["stage"]), r["task"], r["seed"])
        )
        tables.write(path, table, fields)


def record(
    there,
    stage: str,
    seed: int,
    seconds: float,
    tools=None,
    ask=None,
    stop=None,
    wanted=(),
) -> None:
    """Measures a stage on every task on which it was not measured yet.

    Args:
      wanted: names of the only tasks that are asked; none: all.
      stop: see `evaluate`.
      ask: makes what puts rows into another wording, once one is needed.
    """
    have = {tuple(row[name] for name in KEY): int(row["n"]) for row in read()}
    model = there.preset.model.split("/")[-1]
    notes = WORK / str(seed) / "measured.json"  # the adapters that were measured here
    put, about = None, there.started
    for task, rows in tasks().items():
        key = (model, stage, task, str(seed))
        noted = json.loads(notes.read_text()) if notes.exists() else {}
        if wanted and task not in wanted:
            continue
        same = not about or noted.get(f"{stage} {task}") == about
        if have.get(key, -1) >= len(rows) and same:  # not of fewer
            print(f"  {task}: in the table", flush=True)
            continue
        put = put or (ask() if ask else list)
        figures = measure(there, task, put(rows), tools, stop)
        write(
            figures
            | dict(zip(KEY, (model, stage, task, seed), strict=True))
            | {
                "seconds": round(seconds),
                "versions": measured_with() + f" frozen {frozen_dtype(there.preset)}",
                "load": round(os.getloadavg()[0], 1),
            }
        )
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text(json.dumps(noted | {f"{stage} {task}": about}))


def trained_seconds(folder) -> float:
    """What all steps of a run took together, however often it was stopped."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return sum(json.loads(line)["seconds"] for line in lines)


def keep_curve(stage: str, seed: int, folder) -> None:
    """Puts a run on rewards into the table of curves, beside those at other rates."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    if "reward/correct" not in steps[0]:
        return
    key = {"stage": stage, "seed": str(seed)}
    key |= {"rate": f"{max(step['learning_rate'] for step in steps):g}"}
    path = TABLE.with_name(CURVES)
    with alone():
        _keep_curve(path, key, steps)


def _keep_curve(path, key, steps):
    table = [row for row in tables.read(path) if key.items() - row.items()]
    for step in steps:
        row = {"step": step["step"], "sampled": round(step["reward/correct"], 4)}
        row |= {"held_out": step.get("eval/right", "")}
        row |= {"seconds": round(step["seconds"], 1)}
        table.append(key | {name: str(x) for name, x in row.items()})
    table.sort(key=lambda r: (r["stage"], r["seed"], float(r["rate"]), int(r["step"])))
    tables.write(path, table)


def run(preset, stages, seed: int, wanted=()) -> None:
    """Trains and measures the stages in order, in a build folder of the seed's own.

    Args:
      wanted: names of the only tasks that are asked; none: all.
    Raises:
      NotTrained: what a stage goes on from was not trained in that folder.
    """
    os.environ["COURSE_BUILD"] = str(WORK / str(seed))
    require_trained(preset, [name for name in stages if name not in BASE])
    for name in stages:
        print(f"{name}, seed {seed}", flush=True)
        if name in BASE:
            there = maths.recipe(preset)
            ask, stop = as_it_comes(there)[name]
            # Of no seed, the same for all.
            record(there, name, 0, 0.0, ask=ask, stop=stop, wanted=wanted)
            continue
        stage = STAGES[name]
        require_trained(preset, [name])  # an earlier one may have been trained anew
        if stage.train:
            stage.train(preset, seed)
        jax.clear_caches()
        folder = runtime.run_folder(f"{stage.adapters}_{preset.name}")
        tools = CalculatorUse() if stage.calculator else None
        there = maths.recipe(preset).start(stage.adapters)
        record(there, name, seed, trained_seconds(folder), tools, wanted=wanted)
        if stage.train:
            keep_curve(name, seed, folder)


def main():
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    order = [*BASE, *STAGES]
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--stages", nargs="+", choices=order, default=order[:5])
    parser.add_argument("--tasks", nargs="+", choices=[*LEVELS.values(), "gsm8k"])
    parser.add_argument("--preset", default="laptop-real")
    given = parser.parse_args()
    for seed in given.seeds:
        try:
            run(presets.preset(given.preset), given.stages, seed, given.tasks or ())
        except NotTrained as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
