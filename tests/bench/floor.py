"""How fast could an SFT step be at best? Its matrix products alone, and nothing else.

    taskset -c 0 python tests/bench/floor.py      a minute; into bench_floor.csv

An SFT step of the benchmark (`case.py`) is timed whole, and so are its products of
activations with weights, forward and backward, as this course's library does them (XLA)
and as NumPy's BLAS does them. With products as fast as those of BLAS no step can take
less than `blas_cpu_s`; what is above it is attention, norms, activations, the softmax
over the vocabulary and the optimizer. `most` is the greatest ratio to TRL that leaves
nothing for them: TRL's step, from bench_cpu.csv, divided by `blas_cpu_s`.
"""

import csv
import os
import pathlib
import statistics
import time

import numpy as np
import ours
from case import Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "data" / "results"
WIDTHS, ROUNDS = (128, 256), 5


def weights(case):
    """(rows, columns, how often) of every matrix that activations meet in a step."""
    narrow = case.kv_heads * case.head_dim
    layer = [(case.width, case.width)] * 2 + [(case.width, narrow)] * 2
    layer += [(case.width, case.ff)] * 2 + [(case.ff, case.width)]
    return [(*shape, case.layers) for shape in layer] + [(case.width, case.vocab, 1)]


def operands(case):
    """The pairs of arrays that a step multiplies: forward, to inputs, to weights."""
    random = np.random.default_rng(0)

    def array(*shape):
        return random.standard_normal(shape, dtype=np.float32)

    tokens, pairs = case.rows * case.length, []
    for rows, columns, often in weights(case):
        x, w, dy = array(tokens, rows), array(rows, columns), array(tokens, columns)
        pairs += [(x, w), (dy, w.T), (x.T, dy)] * often
    return pairs


def cpu_seconds(work):
    """CPU-seconds of a call, median of several after one that is not counted."""
    work()
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def measure(case):
    """The row of one width."""
    import jax

    pairs = operands(case)
    multiply = jax.jit(lambda a, b: a @ b)
    ready = [(jax.numpy.asarray(a), jax.numpy.asarray(b)) for a, b in pairs]
    blas = cpu_seconds(lambda: [a @ b for a, b in pairs])
    xla = cpu_seconds(lambda: [multiply(a, b).block_until_ready() for a, b in ready])
    work = sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b in pairs)
    return {
        "width": case.width,
        "lengths": f"{case.prompt}+{case.answer}",
        "step_cpu_s": ours.sft(case)["sft_cpu_s"],
        "xla_cpu_s": xla,
        "blas_cpu_s": blas,
        "gflop": work / 1e9,
        "most": peer_seconds(case) / blas,
        "load": os.getloadavg()[0],
    }


def peer_seconds(case):
    """CPU-seconds of TRL's SFT step at this width and length, as `make bench` found."""
    wanted = {
        "peer": "trl",
        "width": str(case.width),
        "lengths": f"{case.prompt}+{case.answer}",
    }
    with open(RESULTS / "bench_cpu.csv", newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if wanted.items() <= row.items())
    return float(row["peer_sft_cpu_s"])


def main():
    """Measures both widths and writes the table."""
    rows = [measure(Case(width=width)) for width in WIDTHS]
    with open(RESULTS / "bench_floor.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    name: f"{value:.5g}" if isinstance(value, float) else value
                    for name, value in row.items()
                }
            )
            print(row)


if __name__ == "__main__":
    main()
