"""Where does the time of a GRPO step go? By what the CPU does, from JAX's own profiler.

    taskset -c 0 python tests/bench/where.py      two minutes; into bench_profile.csv

The steps of `make bench` at 64+64, this course's library only. What XLA ran is put in
three kinds by its name: products (of weights and of attention), moving (copies, slices
of stacked weights and caches, transposes, fills), and all the rest element by element.
Seconds are those of the operations themselves; `share` is of both programs together.
"""

import collections
import csv
import os
import pathlib
import re
import tempfile

import jax
import ours
from case import Case

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "data" / "results"
PROGRAMS = {"jit__generate": "rollout", "jit_update": "update"}
# XLA names an operation by what it fused; the first of these that fits decides.
KINDS = {
    "around": r"while|call|conditional",  # their time is that of what they hold
    "products": r"dot|ynn_fusion",
    "moving": r"slice|copy|transpose|concatenate|gather|wrapped_broadcast",
    "element by element": r"",
}


def kind(name):
    """The kind of an operation, by XLA's name for it."""
    return next(kind for kind, names in KINDS.items() if re.match(f".*({names})", name))


def operations(folder):
    """(program, name, seconds) of all that XLA ran under a trace."""
    (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
    for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
        for line in plane.lines:
            for event in line.events:
                program = PROGRAMS.get(dict(event.stats).get("hlo_module"))
                if program:
                    yield program, event.name, event.duration_ns / 1e9


def profile(case):
    """Seconds a GRPO step, by (program, kind)."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        ours.grpo(case)
        jax.profiler.stop_trace()
        whole = summed(operations(folder))
    return {key: seconds / case.total for key, seconds in whole.items()}


def summed(ran):
    """Seconds by (program, kind) of (program, name, seconds); none is counted twice."""
    spent = collections.Counter()
    for program, name, seconds in ran:
        if kind(name) != "around":
            spent[program, kind(name)] += seconds
    return spent


def main():
    """Profile both widths, and write the table."""
    rows = []
    for width in (128, 256):
        spent = profile(Case(width=width, warmup=0, steps=3))
        whole = sum(spent.values())
        rows += [
            {
                "width": width,
                "lengths": "64+64",
                "program": program,
                "kind": kind,
                "seconds": round(seconds, 4),
                "share": round(seconds / whole, 3),
                "load": os.getloadavg()[0],
            }
            for (program, kind), seconds in sorted(spent.items())
        ]
    with open(RESULTS / "bench_profile.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for row in rows:
        print(*row.values())


if __name__ == "__main__":
    main()
