"""Gemma 3 270M's GRPO loss and gradient on one v5e chip, ours and google-tunix's.

    make tpu-peers

Both are compiled by the same libtpu for the same answers, not run: memory is what the
compiler reserves, times are its model. Table: data/results/tpu_peers.csv.
"""

import json
import os
import pathlib
import subprocess
import sys
from importlib import metadata

import bench

HERE = pathlib.Path(__file__).resolve().parent
TABLE = bench.ROOT / "data" / "results" / "tpu_peers.csv"
ROWS = (8, 16, 32, 128)
LENGTHS = (256, 256)


def compiled(python, script, rows, libtpu):
    """The report of one library's script for a number of answers, as a dict."""
    path = os.pathsep.join([str(bench.ROOT), str(libtpu)])
    settings = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    command = [str(python), str(HERE / script), *map(str, (rows, *LENGTHS))]
    run = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True
    )
    if run.returncode:
        raise bench.BenchError(f"{script} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.strip().splitlines()[-1])


def row(library, rows, report, versions):
    """One line of the table."""
    fits = not report["verdict"]
    return {
        "library": library,
        "model": "google/gemma-3-270m-it",
        "topology": "v5e-1",
        "answers": rows,
        "tokens": rows * sum(LENGTHS),
        "fits": fits,
        "hbm_gb": round(report["hbm_gb"], 2) if fits else "",
        "temporaries_gb": round(report["temporaries_gb"], 2) if fits else "",
        "modelled_ms": round(report["modelled_ms"], 1) if fits else "",
        "roofline_ms": round(report["roofline_ms"], 1) if fits else "",
        "pallas_calls": report["unpriced"].get("tpu_custom_call", 0),
        "verdict": report["verdict"].split("\n")[0],
        "versions": versions,
    }


def main():
    """Compile every size with both libraries and write the table."""
    libtpu = next((bench.ROOT / "build" / "tpu").glob("libtpu*"), None)
    if libtpu is None:
        sys.exit("The TPU compiler is not here: run `make tpu-check` first.")
    tunix = bench.environment("tunix", bench.PEERS["tunix"])
    pythons = {"ours": sys.executable, "tunix": tunix}
    compiler = next(metadata.distributions(path=[str(libtpu)]))
    common = f"jax {metadata.version('jax')}, libtpu {compiler.version}"
    lines = []
    for rows in ROWS:
        for library, python in pythons.items():
            report = compiled(python, f"tpu_{library}.py", rows, libtpu)
            name = bench.PEERS["tunix"][0][0] if library == "tunix" else "the course"
            lines.append(row(library, rows, report, f"{name}, {common}"))
            print({k: v for k, v in lines[-1].items() if v != ""}, flush=True)
            bench.tables.write(TABLE, lines)


if __name__ == "__main__":
    main()
