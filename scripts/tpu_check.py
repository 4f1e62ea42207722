"""Compiles the course's real programs for TPUs that are not here (`make tpu-check`).

Every row of `data/results/tpu_fit.csv` is one program of one model on one slice: the
trainer's update and the sampler's rollout, as the notebooks would run them. A row whose
program, compiler and sizes are unchanged stays. A program that needs over 2% more time
or memory than its row by the same compiler fails, and the row stays too: to accept it,
delete the row. `--quick` looks at three programs that compile fast, in 200 CPU-seconds
if they changed and a few if not, and `--preset` at one preset; both leave the other
rows. `--colab` compiles the preset v5e-1 with Colab's jax and its libtpu. `--example`
writes the programs that notebook 13c reads, and `--topologies` the places of chips,
with which `helpers.tpu.topology` is tested.
"""

import argparse
import concurrent.futures
import csv
import functools
import gzip
import hashlib
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
from importlib import metadata, util

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from helpers.course import results
from helpers.recipes.presets import LARGER
from helpers.tpu import compiler, programs
from helpers.tpu.topology import SLICES, named
from scripts import tables, tpu_cases

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "tpu_fit.csv"
SPARE = 10  # percent of a chip's memory that a shipped program leaves free
GROWTH = 1.02  # of time or memory by the same compiler, before it counts as grown
SIZES = "model program topology preset pictures prompts pieces tokens trained".split()
# Slices whose chips' places are written.
DRAWN = "v5e:1x1 v5e:2x2 v5e:2x4 v5e:4x4 v5e:4x8 v5e:8x8 v5e:16x16 v6e:4x8 v4:2x2x4 "
DRAWN += "tpu7x:2x4x4 v5p:2x2x1 v5p:2x2x2 v5p:2x4x4 v5p:4x4x4 v5p:4x4x8"


def with_compiler(module, arguments=()):
    """Runs a module again with the libtpu that this jax names, installed in build/tpu.

    In the environment itself, jax would look for a TPU.
    """
    requirement, folder = compiler.requirement(), compiler.folder()
    if not (folder / "libtpu").is_dir():
        print(f"Installing {requirement} into {folder.relative_to(ROOT)}", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), requirement], check=True)
    environment = os.environ | {"PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT).returncode


def versions():
    """jax and libtpu without the patch, which comes by itself: jax names a series."""
    series = ".".join(metadata.version("libtpu").split(".")[:3])
    return f"jax {metadata.version('jax')}, libtpu {series}"


def measure(case, known):
    """The row of a case: the known one if its program is unchanged, else compiled.

    Args:
      known: {hash: row} of the last table.
    """
    function, arguments, resident = case.build()
    lowered = compiler.lower(function, *arguments)
    text = f"{lowered.as_text()}{case}{versions()}"
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    if key in known:
        return known[key]
    start = time.process_time()
    report = compiler.report(case.topology, lowered, case.flops())
    usable = named(case.topology).chip.usable_gb
    used = report.hbm_gb + resident  # with what stays there beside the program
    kinds = [f"{n} {kind} {gb:.2f} GiB" for kind, (n, gb) in report.collectives.items()]
    row = {name: getattr(case, name) for name in SIZES} | {
        "group": case.answers,
        "chips": report.chips,
        "hbm_percent": "" if report.verdict else round(100 * used / usable, 1),
        "arguments_gb": round(report.arguments_gb, 3),
        "temporaries_gb": round(report.temporaries_gb, 3),
        "resident_gb": round(resident, 3),
        "tflop": round(case.flops() / 1e12, 2),
        "compiler_tflop": round(report.compiler_tflop, 2),
        "compiler_gb": round(report.compiler_gbytes, 1),
        "modelled_ms": round(report.modelled_ms, 1),
        "kernels_ms": round(report.kernels_ms, 1),
        "roofline_ms": round(report.roofline_ms, 1),
        "pallas_calls": report.unpriced.get("tpu_custom_call", 0),
        "unpriced_calls": sum(report.unpriced.values()),
        "links_ms": round(report.links_ms, 1),
        "collectives": "; ".join(kinds),
        "verdict": report.verdict.replace("\n", " "),
        "versions": versions(),
        "program_hash": key,
    }
    # The first share takes all links to be hidden behind other work, the second none.
    for name, links_ms in (("modelled", 0.0), ("serial", report.links_ms)):
        share = report.peak_percent(report.quoted_ms + links_ms)
        row[f"{name}_peak_percent"] = "" if report.verdict else round(share, 1)
    return row | {"compile_s": round(time.process_time() - start)}


def place(row):
    """What a row is of, by which compiler; pieces change no work."""
    return tuple(str(row[x]) for x in (*SIZES, "versions") if x != "pieces")


def tight(row):
    """Whether a program does not fit, or leaves too little free.

    Where all weights are trained, which no preset does, it only has to fit.
    """
    most = 100 if row["trained"].startswith("all") else 100 - SPARE
    return bool(row["verdict"]) or float(row["hbm_percent"]) > most


def grown(row, known):
    """Whether a program needs more time or memory than its row by the same compiler."""

    def needs(row):
        return results.quoted_ms(row), float(row["hbm_percent"] or math.inf)

    return any(a > GROWTH * b for a, b in zip(needs(row), needs(known), strict=True))


def compiled(chosen):
    """Yields the row of each case, several at once being compiled."""
    known = {row["program_hash"]: row for row in tables.read(TABLE)}
    spawn = multiprocessing.get_context("spawn")  # each worker loads its own libtpu
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), spawn) as pool:
        for job in [pool.submit(measure, case, known) for case in chosen]:
            yield job.result()


def record(rows):
    """Puts rows into the table, one by one, and says what is wrong with which.

    In the place of a program that grew, the old row stays.
    """
    table = {place(row): row for row in tables.read(TABLE)}
    problems, start = [], time.monotonic()
    for row in rows:
        name = f"{row['topology']} {row['model']} {row['program']} {row['trained']}"
        print(
            f"{time.monotonic() - start:5.0f} s  {name}: {row['tokens']} tokens, "
            f"{row['hbm_percent'] or 'more than 100'}% of HBM, "
            f"{row['modelled_ms']} ms modelled, at least {row['roofline_ms']}",
            flush=True,
        )
        if tight(row):
            problems.append(f"{name} does not fit, or with under {SPARE}% free.")
        if grown(row, table.get(place(row), row)):
            problems.append(
                f"{name} needs over 2% more time or memory than its row of {TABLE.name}"
                " by the same compiler. To accept it, delete that row."
            )
            continue
        table[place(row)] = row
        columns = next(iter(table.values())) | row  # in the order of the file
        tables.write(TABLE, list(table.values()), columns)
    return problems


def compile_on_colab():
    """Installs the course beside Colab's packages, and compiles there."""
    from tests.colab import colab_check  # there, "tests" is another package

    with colab_check.machine("colab") as colab:
        pins = [f"{name}=={version}" for name, version in colab.packages().items()]
        constraints = colab.home / "constraints.txt"
        constraints.write_text("\n".join(pins))
        pip = [colab.python, "-m", "pip", "install", "-q", "-c", constraints, "-e"]
        clean = colab_check.clean_environment()
        colab_check.run([*pip, ROOT], colab_check.Failed, env=clean)
        command = [colab.python, "-m", "scripts.tpu_check", "--preset", "v5e-1"]
        return subprocess.run(command, cwd=ROOT, env=clean).returncode


def write_example():
    """Compiles notebook 13c's programs, for one v5e chip, into data/programs."""
    chip = SingleDeviceSharding(compiler.devices("v5e-1")[0])
    L, T, D, F = programs.EXAMPLE
    shapes = [(L, D), (L, D, F), (L, D, F), (L, F, D), (T, D)]
    *weights, x = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=chip) for shape in shapes
    ]
    for again in (False, True):
        loss = functools.partial(programs.example_loss, again=again)
        lowered = compiler.lower(jax.jit(jax.value_and_grad(loss)), tuple(weights), x)
        with compiler.quiet():
            text = lowered.compile().as_text().replace(str(ROOT), "/course")
        # Without a time in it the file is the same whenever it is written.
        programs.example_file(again).write_bytes(
            gzip.compress(text.encode(), 9, mtime=0)
        )


def write_topologies():
    """Writes the place and host of each chip of some slices, as the compiler has it."""
    with open(results.FOLDER / "topologies.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("slice", "chip", "x", "y", "z", "host", "versions"))
        for name in DRAWN.split():
            chips = dict.fromkeys(  # a chip may be two devices
                (*x.coords, x.process_index) for x in compiler.devices(name)
            )
            writer.writerows((name, i, *x, versions()) for i, x in enumerate(chips))


def main(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three quick programs")
    parser.add_argument("--preset", choices=[*SLICES, *LARGER], help="this one only")
    parser.add_argument("--colab", action="store_true", help="v5e-1, with Colab's jax")
    parser.add_argument("--example", action="store_true", help="write data/programs")
    parser.add_argument("--topologies", action="store_true", help="topologies.csv")
    options = parser.parse_args(arguments)
    if options.colab:
        return compile_on_colab()
    if not util.find_spec("libtpu"):
        return with_compiler("scripts.tpu_check", arguments)
    if options.example:
        return write_example()
    if options.topologies:
        return write_topologies()
    chosen = tpu_cases.quick() if options.quick else tpu_cases.cases()
    if options.preset:
        chosen = [case for case in chosen if case.preset == options.preset]
    return "\n".join(record(compiled(chosen))) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
