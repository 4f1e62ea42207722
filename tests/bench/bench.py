"""Measure this course's trainer against google-tunix and TRL, side by side.

    make bench        about 40 minutes; the machine should have nothing else to do

Each peer gets its own environment under build/bench/<peer>, made here with pip. Then,
for every case (width × lengths), the three libraries run in turn in fresh processes,
pinned to one core: ours, tunix, ours, trl, and all of it again. What they run is in
`case.py`; how each is set up, and where it departs from its defaults, is said at the
top of `ours.py`, `peer_tunix.py` and `peer_trl.py`.

Every ratio says how many times better we are, so above 1 is in our favour: seconds and
megabytes are theirs divided by ours, tokens per second ours divided by theirs.

- grpo_cpu_s: CPU-seconds of the process for one whole GRPO step (rollout, rewards,
  update), median over the timed steps. Compare this one on a machine that is not idle.
- rollout_tok_s, sft_tok_s: tokens per second of wall time. Our rollout includes the
  rewards, theirs does not.
- first_step_cold_s: wall seconds from the start of training to the end of its first
  step, compiling included. warm: the same in later rounds, with the compilation cache
  of the first (TRL compiles nothing).
- peak_mb: most memory the process held, from its start to the end of GRPO.
"""

import argparse
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from case import Case

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from scripts import tables  # noqa: E402

TABLE = ROOT / "data" / "results" / "bench_cpu.csv"

# What pip installs for each peer, in this order. PyTorch comes first: trl would ask
# for the newest, which on Linux brings gigabytes of CUDA.
PEERS = {
    "tunix": (["google-tunix==0.1.7", "jax==0.11.0", "flax==0.12.8", "optax==0.2.8"],),
    "trl": (
        ["torch==2.13.0"],
        ["trl==1.16.0", "transformers==5.24.0", "accelerate==1.15.0"],
    ),
}
# Tunix wants a jax before 0.11.1, and that wants Python 3.12; PyTorch has a build for
# CPUs for 3.11 alone.
PYTHONS = {"tunix": sys.executable, "trl": "python3.11"}
SCRIPTS = {"ours": "ours.py", "tunix": "peer_tunix.py", "trl": "peer_trl.py"}

# Name of a ratio: the figure it compares, and whether less of it is better.
RATIOS = {
    "grpo_step_ratio": ("grpo_cpu_s", True),
    "grpo_wall_ratio": ("grpo_wall_s", True),
    "rollout_ratio": ("rollout_tok_s", False),
    "rollout_cpu_ratio": ("rollout_cpu_s", True),
    "sft_ratio": ("sft_tok_s", False),
    "sft_cpu_ratio": ("sft_cpu_s", True),
    "first_step_cold_ratio": ("first_step_cold_s", True),
    "first_step_warm_ratio": ("first_step_warm_s", True),
    "peak_ratio": ("peak_mb", True),
}


class BenchError(RuntimeError):
    """A peer could not be installed, or a library could not run its case."""


def environment(peer, requirements, folder=None, base="python3.11"):
    """The Python of a peer's own environment, made if it is not there yet.

    Args:
      peer: "tunix" or "trl".
      requirements: lists of pip requirements, installed one list after the other.
      folder: where environments live; build/bench of this repository.
      base: the interpreter that it is made with; this one where it is not installed.
    Raises:
      BenchError: pip failed; the message ends with what pip said last.
    """
    home = (folder or ROOT / "build" / "bench") / peer
    python, done = home / "bin" / "python", home / "installed.json"
    if done.exists() and json.loads(done.read_text()) == list(requirements):
        return python
    print(f"installing {peer} into {home} …", flush=True)
    made_with = shutil.which(base) or sys.executable
    pip = [str(python), "-m", "pip", "install"]
    commands = [[made_with, "-m", "venv", "--clear", str(home)]]
    for command in commands + [[*pip, *names] for names in requirements]:
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            raise BenchError(
                f"{peer} could not be installed: {' '.join(command)}\n"
                f"{(run.stdout + run.stderr)[-2000:]}\nMend the cause, or leave this "
                "peer out with --peers."
            )
    done.write_text(json.dumps(list(requirements)))
    return python


def call(library, python, case, settings, parts=(), seconds=None):
    """Runs one library's script on one case in a fresh process; returns its figures.

    Args:
      library: key of SCRIPTS.
      python: the interpreter of the library's environment.
      case: what to run.
      settings: further environment variables.
      parts: names of the functions of the script to run; none: GRPO and SFT.
      seconds: how long it may take; None: any time.
    Raises:
      BenchError: the script failed, and the message ends with its last lines; or it
        took too long.
    """
    command = [str(python), str(HERE / SCRIPTS[library]), json.dumps(vars(case))]
    command += parts
    environment = os.environ | settings
    try:
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"stopped after {seconds:.0f} seconds") from None
    if run.returncode:
        raise BenchError(f"{' '.join(command)}\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.strip().splitlines()[-1])


def measure(library, python, case, cache):
    """The figures of one library on one case, on the CPU.

    Args:
      library, python, case: as in `call`.
      cache: folder of JAX's compilation cache; TRL does not look at it.
    """
    settings = {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # for both, small ones too
    }
    begin = time.monotonic()
    figures = call(library, python, case, settings)
    print(
        f"  {library:5}  GRPO step {figures['grpo_cpu_s']:.2f} CPU-s, first "
        f"{figures['first_step_s']:.1f} s; SFT step {figures['sft_cpu_s']:.2f} CPU-s; "
        f"load {figures['load']}; whole run {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return figures


def summary(runs):
    """One library's figures of one case, over all rounds.

    Args:
      runs: what `measure` returned, round by round; the first one found the
        compilation cache empty.
    """
    names = [figure for figure, _ in RATIOS.values() if not figure.startswith("first_")]
    result = {name: statistics.median(run[name] for run in runs) for name in names}
    first = [run["first_step_s"] for run in runs]
    result |= {
        "first_step_cold_s": first[0],
        "first_step_warm_s": statistics.median(first[1:]),
    }
    return {name: round(value, 4) for name, value in result.items()}


def row(peer, case, ours, theirs, cores):
    """One line of the table: a case, a peer, both libraries' figures, the ratios.

    Args:
      peer: name of the other library.
      case: what was run.
      ours, theirs: lists of figures, one per round, run in turn.
      cores: the cores all of them were pinned to.
    """
    mine, other = summary(ours), summary(theirs)
    line = {"peer": peer, "width": case.width, "lengths": lengths(case)}
    for ratio, (figure, less) in RATIOS.items():
        line[f"ours_{figure}"], line[f"peer_{figure}"] = mine[figure], other[figure]
        worse, better = (other, mine) if less else (mine, other)
        line[ratio] = round(worse[figure] / better[figure], 2)
    versions = {"ours": ours[-1]["versions"], "peer": theirs[-1]["versions"]}
    return line | {
        "rounds": len(ours),
        "steps": case.steps,
        "cores": " ".join(map(str, cores)) or "not pinned",
        "load": max(run["load"] for run in ours + theirs),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": json.dumps(versions),
    }


def lengths(case):
    """How a case's lengths are written in the table: prompt+answer."""
    return f"{case.prompt}+{case.answer}"


def compare(case, pythons, rounds, cores):
    """Run a case with every library in turn; returns one row per peer."""
    runs = {peer: ([], []) for peer in pythons if peer != "ours"}
    with tempfile.TemporaryDirectory() as caches:
        for round_, (peer, (ours, theirs)) in itertools.product(
            range(rounds), runs.items()
        ):
            print(f"width {case.width}, {lengths(case)}, round {round_ + 1}:")
            for library, results in (("ours", ours), (peer, theirs)):
                cache = pathlib.Path(caches, f"{library}-beside-{peer}")
                results.append(measure(library, pythons[library], case, cache))
    return [row(peer, case, *both, cores) for peer, both in runs.items()]


def pin(core):
    """Keep this process and its children on one core; the cores they may use.

    Args:
      core: a core's number, or None for the last this process may use.
    """
    if not hasattr(os, "sched_setaffinity"):
        print("This system cannot pin processes to a core: trust the CPU-seconds only.")
        return []
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0)) if core is None else core})
    return sorted(os.sched_getaffinity(0))


def main(argv=None):
    """Install, measure, write the table and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256])
    parser.add_argument("--lengths", nargs="+", default=["64+64", "256+64"])
    parser.add_argument("--rounds", type=int, default=2, help="the first compiles")
    parser.add_argument("--steps", type=int, default=Case.steps)
    parser.add_argument("--core", type=int, help="default: the last one")
    parser.add_argument("--out", type=pathlib.Path, default=TABLE)
    choice = parser.parse_args(argv)
    try:
        pythons = {
            peer: environment(peer, PEERS[peer], base=PYTHONS[peer])
            for peer in choice.peers
        }
        pythons["ours"] = sys.executable
        cores, rows = pin(choice.core), []
        for width, both in itertools.product(choice.widths, choice.lengths):
            prompt, answer = map(int, both.split("+"))
            case = dataclasses.replace(
                Case(), width=width, prompt=prompt, answer=answer, steps=choice.steps
            )
            rows += compare(case, pythons, choice.rounds, cores)
            tables.write(choice.out, rows)
    except BenchError as error:
        raise SystemExit(f"bench: {error}") from None
    for line in rows:
        better = " ".join(
            f"{name.removesuffix('_ratio')} {line[name]}" for name in RATIOS
        )
        print(f"{line['peer']} {line['width']} {line['lengths']}: {better}")
    print(f"Numbers say how many times better we are; written: {choice.out}")


if __name__ == "__main__":
    main()
