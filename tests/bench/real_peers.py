"""The same real model trained with the same recipe by this course and by TRL.

    make real-peers      some hours; the machine should have nothing else to do

SmolLM2-135M-Instruct learns generated one-step problems, with LoRA: SFT
on worked solutions, then GRPO from one SFT model (ours, seed 0). Both libraries read
the same rows in the same order, begin with the same adapters and follow the same
learning rates (`real_case.py` has the recipe, `real_ours.py` and `real_trl.py` say how
each is set up). Each training is a fresh process, ours and TRL's in turn, on the same
two cores. What either has trained is graded here, by the course's own evaluation.

That both compute the same is checked and not claimed: SFT's first loss and gradient,
the loss and gradient of a GRPO step on the very same answers, and all learning rates.

Two tables, in data/results: `real_peers.csv`, a row per training, and
`real_peers_curves.csv`, GRPO's share of right answers by step.

- greedy, low, high: share of n held-out problems answered right, and its 95% interval.
- numbers: float32; or bfloat16 where products are rounded, in a folder of its own:
  PEERS_ARGS="--numbers bfloat16 --work build/real_peers_bfloat16".
- cpu_s_step, wall_s_step: median seconds of a step, of the process and of the clock. A
  step that compiles is not typical. On a machine that is not idle compare the first,
  and pass --cores 1: PyTorch's threads wait for each other busily, so that two of them
  beside other work take many times the CPU-seconds that they need.
- wall_s: seconds of all steps, compiling included.
- peak_mb: most memory that the training process held.

Everything is kept in build/real_peers: killed and started again, it goes on with the
training that was not finished. Another recipe needs another --work.
"""

import argparse
import csv
import dataclasses
import math
import os
import pathlib
import statistics
import subprocess
import sys

from bench import HERE, ROOT, BenchError, environment
from real_case import Place, RealCase, read, write

RESULTS = ROOT / "data" / "results"
# transformers and peft as in `make parity`; trl as in `make bench`.
NEEDS = (
    ["torch==2.13.0"],
    ["trl==1.16.0", "transformers==5.23.0", "accelerate==1.15.0", "peft==0.21.2"],
)
SCRIPTS = {"ours": "real_ours.py", "trl": "real_trl.py"}
STAGES = ("sft", "grpo")
TARGETS = {"wall_s_step": 1.5, "cpu_s_step": 1.5, "peak_mb": 1.0}
# How far losses may be apart, and gradients' norms as a share. Autocast rounds what
# flows between the products, too.
CLOSE = {"float32": 1e-4, "bfloat16": 3e-2}


def settle(place, case):
    """Notes the recipe where the files go.

    Raises:
      BenchError: the files there were made with another one.
    """
    place.work.mkdir(parents=True, exist_ok=True)
    path, asked = place.work / "case.json", dataclasses.asdict(case)
    if not path.exists():
        write(path, asked)
    kept = read(path)
    changed = [name for name in asked if asked[name] != kept.get(name)]
    if changed:
        raise BenchError(
            f"{place.work} has trainings with other {', '.join(changed)}. Delete that "
            "folder, or pass another one as --work."
        )


def once(path, pythons, library, place, stage, seed, *more):
    """Runs a stage of a library in a fresh process, unless its file is there.

    Args:
      path: the file that the stage ends with.
      pythons: the interpreters of the libraries' environments.
    Returns:
      What is in the file, if it is JSON.
    Raises:
      BenchError: the process failed; the message ends with its last lines.
    """
    if not path.exists():
        what = " ".join([stage, *more])
        print(f"{library}: {what}, seed {seed} …", flush=True)
        script = str(HERE / SCRIPTS[library])
        more = more if library == "ours" else (str(pythons["ours"]),)
        command = [str(pythons[library]), script, str(place.work), stage, str(seed)]
        own = {"JAX_COMPILATION_CACHE_DIR": str(place.work / "jax-cache")}
        run = subprocess.run(
            [*command, *more],
            env=os.environ | {"JAX_PLATFORMS": "cpu"} | own,
            capture_output=True,
            text=True,
        )
        if run.returncode or not path.exists():
            said = "\n".join(run.stderr.strip().splitlines()[-15:])
            raise BenchError(f"{' '.join(command)} failed:\n{said}")
    return read(path)


def train(pythons, place, stage, seed):
    """Trains with both libraries in turn, and grades; rows of the two tables."""
    lines, found = [], {}
    for library in SCRIPTS:
        result = place.result(library, stage, seed)
        found[library] = once(result, pythons, library, place, stage, seed)
    agree_on_rates(found["ours"]["rows"], found["trl"]["rows"])
    if stage == "sft":
        first = [found[library]["rows"][0] for library in SCRIPTS]
        agree("SFT's first step", CLOSE[place.case().numbers], *first)
    for library in SCRIPTS:
        path = place.result(library, f"{stage}-graded", seed)
        more = library, stage
        graded = once(path, pythons, "ours", place, "grade", seed, *more)
        lines.append(
            line(place.case().numbers, library, stage, seed, found[library], graded)
        )
        print(f"  {lines[-1]}", flush=True)
    points = [
        {
            "library": library,
            "numbers": place.case().numbers,
            "seed": seed,
            "step": step,
            "right": round(row["right"], 4),
        }
        for library in SCRIPTS
        for step, row in enumerate(found[library]["rows"], 1)
        if "right" in row
    ]
    return lines, points


def check(pythons, place, seed):
    """Has both compute one GRPO step from the same answers."""
    path = {library: place.result(library, "check", seed) for library in SCRIPTS}
    steps = [once(path[x], pythons, x, place, "check", seed) for x in SCRIPTS]
    agree("GRPO's step on the same answers", CLOSE[place.case().numbers], *steps)


def agree(what, close, ours, theirs):
    """Raises BenchError where losses or norms of gradients are not the same."""
    pairs = [(row["loss"], row["grad_norm"]) for row in (ours, theirs)]
    (loss, norm), (their_loss, their_norm) = pairs
    apart = abs(loss - their_loss), abs(norm - their_norm) / max(norm, 1e-9)
    print(f"  {what}: losses {apart[0]:.1e} apart, gradients' norms {apart[1]:.1e}")
    if max(apart) > close:
        raise BenchError(
            f"{what} differs, so this would compare two algorithms: loss {loss} and "
            f"gradient of norm {norm} here, {their_loss} and {their_norm} with TRL."
        )


def agree_on_rates(ours, theirs):
    """Raises BenchError where the two did not follow the same learning rates."""
    rates = [[row["learning_rate"] for row in rows] for rows in (ours, theirs)]
    same = len(rates[0]) == len(rates[1]) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(*rates, strict=True)
    )
    if not same:
        raise BenchError(f"learning rates differ: {rates[0]} here, {rates[1]} with TRL")


def line(numbers, library, stage, seed, trained, graded):
    """A row of real_peers.csv."""
    steps = trained["rows"][1:]  # the first compiles, or warms up
    seconds = {
        "cpu_s_step": statistics.median(row["cpu_seconds"] for row in steps),
        "wall_s_step": statistics.median(row["seconds"] for row in steps),
        "wall_s": trained["wall_s"],
        "peak_mb": trained["peak_mb"],
    }
    return (
        {"library": library, "numbers": numbers, "stage": stage, "seed": seed}
        | {"n": graded["n"]}
        | {name: round(graded[name], 4) for name in ("greedy", "low", "high")}
        | {"steps": len(trained["rows"])}
        | {name: round(value, 2) for name, value in seconds.items()}
        | {name: trained[name] for name in ("cores", "versions", "load")}
    )


def save(rows, path):
    """Writes rows in the place of those of the same trainings, beside all others."""

    def training(row):
        return row["numbers"], row.get("stage", "grpo"), str(row["seed"])

    def place(row):
        numbers, stage, seed = training(row)
        return numbers, STAGES.index(stage), int(seed)

    new = {training(row) for row in rows}
    if path.exists():
        with path.open(newline="") as file:
            rows = [r for r in csv.DictReader(file) if training(r) not in new] + rows
    rows = sorted(rows, key=place)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    with aside.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    aside.rename(path)


def ratios(rows, stage):
    """{figure: TRL's divided by ours}, of the means over the seeds of a stage."""

    def mean(library, name):
        own = [r for r in rows if (r["library"], r["stage"]) == (library, stage)]
        return statistics.mean(float(row[name]) for row in own)

    return {name: mean("trl", name) / mean("ours", name) for name in TARGETS}


def apart(rows):
    """The trainings, as (stage, seed), with a score outside of the other's interval."""
    pairs = {}
    for row in rows:
        pairs.setdefault((row["stage"], row["seed"]), []).append(row)
    return [
        key
        for key, (one, other) in pairs.items()
        if not other["low"] <= one["greedy"] <= other["high"]
        or not one["low"] <= other["greedy"] <= one["high"]
    ]


def show(rows):
    """Prints the ratios with their targets, and whether scores agree."""
    for stage in STAGES:
        if any(row["stage"] == stage for row in rows):
            said = [
                f"{name} {ratio:.2f} [{TARGETS[name]:g}]"
                for name, ratio in ratios(rows, stage).items()
            ]
            print(f"{stage}, TRL's divided by ours [target]: {', '.join(said)}")
    print(f"scores outside of each other's interval: {apart(rows) or 'none'}")


def given(argv=None):
    """The command line: a recipe's fields, and where everything goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/real_peers")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    for field in dataclasses.fields(RealCase):
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    choice = parser.parse_args(argv)
    fields = [field.name for field in dataclasses.fields(RealCase)]
    return choice, RealCase(**{name: getattr(choice, name) for name in fields})


def main(argv=None):
    """Installs, trains with both, checks, grades, and writes the tables."""
    choice, case = given(argv)
    place, rows, points = Place(choice.work.resolve()), [], []
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-case.cores :])
    try:
        settle(place, case)
        pythons = {"ours": sys.executable, "trl": environment("trl-real", NEEDS)}
        for seed in sorted({0, *choice.seeds}):
            once(place.rows(seed), pythons, "ours", place, "prepare", seed)
        start = place.result("ours", "sft", 0)
        once(start, pythons, "ours", place, "sft", 0)  # all of GRPO begins with it
        for stage in choice.stages:
            if stage == "grpo":
                check(pythons, place, 0)
            for seed in choice.seeds:
                lines, curves = train(pythons, place, stage, seed)
                rows, points = rows + lines, points + curves
                save(rows, choice.out / "real_peers.csv")
                if points:
                    save(points, choice.out / "real_peers_curves.csv")
    except BenchError as error:
        raise SystemExit(f"real_peers: {error}") from None
    show(rows)


if __name__ == "__main__":
    main()
