"""Compiles the course's real programs for TPUs that are not here (`make tpu-check`).

Every row of `data/results/tpu_fit.csv` is one program of one model on one slice: the
trainer's update, the sampler's rollout, as the notebooks would run them. A row whose
program, compiler and sizes are unchanged is kept. `--quick` looks at the two default
presets only, `--preset` at one of all, `--old` at those whose row is of an older
program; all three keep the other rows. `--restate` compiles nothing and counts the
useful work of all rows anew.
"""

import argparse
import concurrent.futures
import hashlib
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
from importlib import metadata, util

from helpers.course import results
from helpers.recipes.presets import LARGER
from helpers.tpu import GENERATIONS, compiler, topology
from scripts import tables, tpu_cases

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "tpu_fit.csv"
PLACES = 16  # functions of a program that its row tells of
SPARE = 10  # percent of a chip's memory that a shipped program leaves free
SIZES = tuple("model program topology preset pictures prompts pieces tokens".split())


def with_compiler(module, arguments=()):
    """Runs a module again with the libtpu that this jax names, installed aside.

    It lies in build/tpu and not in the environment, where jax would look for a TPU.
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
    """jax and libtpu, as the compiler that was asked; its series, without patches.

    jax asks for a series (`libtpu==0.0.42.*`), so a patch comes by itself, and a table
    of an hour should outlive it.
    """
    series = ".".join(metadata.version("libtpu").split(".")[:3])
    return f"jax {metadata.version('jax')}, libtpu {series}"


def measure(case, kept):
    """The row of a case: the kept one if its program is unchanged, else compiled.

    Args:
      case: of `tpu_cases`.
      kept: {hash: row} of the last table.
    """
    function, arguments, resident = case.build()
    lowered = compiler.lower(function, *arguments)
    text = f"{lowered.as_text()}{case}{versions()}"
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    known = kept.get(key, {})
    if known.get("places") or known.get("verdict"):  # else of before it was asked for
        return known
    chips = compiler.mesh(case.topology).size
    start = time.process_time()
    report = compiler.report(case.topology, chips, lowered, case.flops())
    seconds = time.process_time() - start
    kinds = [f"{n} {kind} {gb:.2f} GiB" for kind, (n, gb) in report.collectives.items()]
    row = named(case) | {
        "group": case.answers,
        "chips": chips,
        "hbm_percent": "" if report.verdict else used_percent(report, resident),
        "arguments_gb": round(report.arguments_gb, 3),
        "temporaries_gb": round(report.temporaries_gb, 3),
        "resident_gb": round(resident, 3),
        "compiler_tflop": round(report.compiler_tflop, 2),
        "compiler_gb": round(report.compiler_gbytes, 1),
        "modelled_ms": round(report.modelled_ms, 1),
        "kernels_ms": round(report.kernels_ms, 1),
        "roofline_ms": round(report.roofline_ms, 1),
        "pallas_calls": report.pallas_calls,
        "unpriced_calls": report.unpriced_calls,
        "executed_tflop": round(sum(share.tflop for share in report.by_place), 2),
        "places": places(report),
        "links_ms": round(report.links_ms, 1),
        "collectives": "; ".join(kinds),
        "verdict": report.verdict.replace("\n", " "),
        "versions": versions(),
        "program_hash": key,
        "compile_s": round(seconds),
    }
    return stated(row, case)


def used_percent(report, resident):
    """Of a chip's memory, with the GiB that stay there beside the program."""
    return round(report.hbm_percent + 100 * resident / report.usable_gb, 1)


def places(report):
    """Where its time goes: the dearest functions, what each is priced at and bound by.

    Both in milliseconds, of one device: "layer.Layer.project_all 585.7 412.1; …".
    """
    dearest = report.by_place[:PLACES]
    return "; ".join(
        f"{share.label} {share.modelled_ms:.1f} {share.bound_ms:.1f}"
        for share in dearest
    )


def stated(row, case):
    """The row with its useful work, and shares of the peak, as they are counted today.

    `modelled_peak_percent` takes all links to be hidden behind other work,
    `serial_peak_percent` none: the truth is between the two. Empty without a time.
    """
    name = topology.SLICES.get(case.topology, case.topology)
    chip = GENERATIONS[name.partition(":")[0]]
    tflop = case.flops() / 1e12
    busy, links = results.quoted_ms(row), float(row["links_ms"])
    row = row | {"tflop": round(tflop, 2)}
    for column, ms in (
        ("modelled_peak_percent", busy),
        ("serial_peak_percent", busy + links),
    ):
        most = chip.tflops / chip.devices * int(row["chips"]) * ms / 1e3
        row[column] = round(100 * tflop / most, 1) if most else ""
    return row


def named(case):
    """The columns that say what a row is of."""
    return {name: getattr(case, name) for name in SIZES} | {"trained": trained(case)}


def place(row):
    """What a row is of, however its update is cut: pieces change no work."""
    return tuple(str(row[name]) for name in (*SIZES, "trained") if name != "pieces")


def restated(rows):
    """Rows by today's count of their work; of programs that are gone, as before."""
    known = {place(named(case)): case for case in tpu_cases.cases()}
    keys = map(place, rows)
    return [
        stated(row, known[key]) if key in known else row
        for row, key in zip(rows, keys, strict=True)
    ]


def is_old(case, rows):
    """Whether no row of this compiler says where the case's time goes."""
    return not any(
        row["versions"] == versions() and (row.get("places") or row["verdict"])
        for row in rows
        if place(row) == place(named(case))
    )


def trained(case):
    """What a case trains, and beside what if that is not a base on the chip alone."""
    if case.program == "answers":
        return "nothing"
    beside = " on NF4" if case.stored.startswith("nf4") else ""
    if case.table_on_host:
        beside += " on int8" if case.stored == "int8" else ""
        beside += " with a table on the host"
    if case.cut > 1:
        beside += f", each matrix over {case.cut} chips"
    if case.teacher != tpu_cases.TEACHER and (
        case.program == "distillation" or case.beside_teacher
    ):
        how = "from" if case.program == "distillation" else "beside"
        beside += f" {how} {case.teacher.rpartition('/')[2]}"
        if case.teacher_stored and not case.stored:  # else it is said of both
            beside += f" in {case.teacher_stored}"
    return f"LoRA {case.rank}{beside}" if case.rank else f"all{beside}"


def table():
    """The rows of the last run."""
    return tables.read(TABLE)


def of_today(rows):
    """Rows of programs that are cases still, and those of another compiler."""
    known = {place(named(case)) for case in tpu_cases.cases()}
    mine = versions()
    return [row for row in rows if row["versions"] != mine or place(row) in known]


def write(rows):
    """Replaces the table."""
    # Rows of another compiler may be older than a column.
    names = dict.fromkeys(name for row in reversed(rows) for name in row)
    tables.write(TABLE, rows, names)


def tight(row):
    """Whether a program does not fit, or leaves too little free.

    What stays in memory beside a program is in its percentage, and not in the verdict.
    Where all weights are trained, which no preset does, it only has to fit.
    """
    most = 100 if row["trained"].startswith("all") else 100 - SPARE
    return bool(row["verdict"]) or float(row["hbm_percent"]) > most


def main(chosen):
    """Compiles what is new, writes the table, and fails if something does not fit."""
    kept = {row["program_hash"]: row for row in table()}
    rows, start = [], time.monotonic()
    spawn = multiprocessing.get_context("spawn")  # each worker loads its own libtpu
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), spawn) as pool:
        jobs = [pool.submit(measure, case, kept) for case in chosen]
        for case, job in zip(chosen, jobs, strict=True):
            rows.append(row := job.result())
            print(
                f"{time.monotonic() - start:5.0f} s  {case.topology} {case.model} "
                f"{case.program} {row['trained']}: {row['tokens']} tokens, "
                f"{row['hbm_percent'] or 'more than 100'}% of HBM, "
                f"{row['modelled_ms']} ms modelled, at least {row['roofline_ms']}",
                flush=True,
            )
            write(merged(list(kept.values()), rows))
    return rows


def merged(old, new):
    """Rows of two runs; of the same case and compiler, the new ones."""

    def keyed(rows):
        return {(place(row), row["versions"]): row for row in rows}

    return list((keyed(old) | keyed(new)).values())


def run(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the default presets only")
    names = [*topology.SLICES, *LARGER]
    parser.add_argument("--preset", choices=names, help="this preset only")
    parser.add_argument("--old", action="store_true", help="where a row is older only")
    parser.add_argument("--restate", action="store_true", help="compile nothing")
    options = parser.parse_args(arguments)
    if options.restate:
        write(restated(table()))
        return 0
    if not util.find_spec("libtpu"):
        return with_compiler("scripts.tpu_check", arguments)
    chosen = tpu_cases.cases()
    if options.quick:
        chosen = list(tpu_cases.shipped())
    if options.preset:
        chosen = [case for case in tpu_cases.cases() if case.preset == options.preset]
    if options.old:
        chosen = [case for case in chosen if is_old(case, table())]
    rows = main(chosen)
    write(of_today(table()))
    if bad := [f"{row['topology']} {row['program']}" for row in rows if tight(row)]:
        return f"Too large, or a preset's with under {SPARE}% free: {', '.join(bad)}."
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
