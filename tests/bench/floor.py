"""How fast could a step be at best? Its matrix products alone, and nothing else.

    taskset -c 0 python tests/bench/floor.py      a few minutes; into bench_floor.csv

For every case of `make bench`, all products of activations with weights in an SFT step
and in a GRPO step (prompts once per group, one pass forward for sampling, then forward
and backward) are timed, as this course's library does them (XLA) and as NumPy's BLAS
does them. Attention, norms, activations, the softmax over the vocabulary, the optimizer
and the rewards come on top. `most_tunix` and `most_trl` are the greatest ratios that
leave nothing for those: the peer's step, from bench_cpu.csv, divided by the faster of
the two; `ours_tunix` and `ours_trl` are what `make bench` found.

The peers' steps were timed apart and at another load (the columns `load` of both
tables), so `most` is no floor to the digit.
"""

import csv
import itertools
import os
import pathlib
import statistics
import time

import numpy as np
from case import Case

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "data" / "results"
ROUNDS = 3


def weights(case):
    """(rows, columns, how often) of every matrix that activations meet in a pass."""
    narrow = case.kv_heads * case.head_dim
    layer = [(case.width, case.width)] * 2 + [(case.width, narrow)] * 2
    layer += [(case.width, case.ff)] * 2 + [(case.ff, case.width)]
    return [(*shape, case.layers) for shape in layer] + [(case.width, case.vocab, 1)]


def passes(case, program):
    """(tokens at once, how often, backward too) of the passes of a step."""
    if program == "sft":
        return [(case.rows * case.length, 1, True)]
    prompts = case.prompts * case.prompt
    everything = prompts + case.rows * case.answer
    return [(prompts, 1, False), (case.rows, case.answer, False), (everything, 1, True)]


def products(case, program):
    """(a, b, how often): the products of a step, operands as they are multiplied."""
    random = np.random.default_rng(0)

    def array(*shape):
        return random.standard_normal(shape, dtype=np.float32)

    for tokens, times, backward in passes(case, program):
        for rows, columns, often in weights(case):
            x, w, dy = array(tokens, rows), array(rows, columns), array(tokens, columns)
            pairs = [(x, w), (dy, w.T), (x.T, dy)] if backward else [(x, w)]
            yield from ((a, b, often * times) for a, b in pairs)


def cpu_seconds(multiply, a, b):
    """CPU-seconds of one product, median of several rounds of at least 20 ms."""
    repeats, taken = 1, []
    while len(taken) <= ROUNDS:
        start = time.process_time()
        for _ in range(repeats):
            multiply(a, b)
        spent = time.process_time() - start
        if spent < 0.02:
            repeats *= 4
        else:
            taken.append(spent / repeats)
    return statistics.median(taken[1:])


def measure(case, program, found):
    """The row of one case; `found` holds its rows of bench_cpu.csv by peer."""
    import jax

    dot = jax.jit(lambda a, b: a @ b)
    blas = xla = work = 0.0
    for a, b, often in products(case, program):
        ready = jax.numpy.asarray(a), jax.numpy.asarray(b)
        blas += often * cpu_seconds(np.matmul, a, b)
        xla += often * cpu_seconds(lambda a, b: dot(a, b).block_until_ready(), *ready)
        work += often * 2 * a.shape[0] * a.shape[1] * b.shape[1] / 1e9
    row = {
        "program": program,
        "width": case.width,
        "lengths": f"{case.prompt}+{case.answer}",
        "gflop": work,
        "xla_cpu_s": xla,
        "blas_cpu_s": blas,
    }
    for peer, bench in found.items():
        theirs, mine = (float(bench[f"{who}_{program}_cpu_s"]) for who in WHO)
        row |= {f"most_{peer}": theirs / min(blas, xla), f"ours_{peer}": theirs / mine}
    return row | {"load": os.getloadavg()[0]}


WHO = ("peer", "ours")


def main():
    """Measures all cases and writes the table."""
    with open(RESULTS / "bench_cpu.csv", newline="") as file:
        bench = list(csv.DictReader(file))
    rows = []
    for program, width, prompt in itertools.product(
        ("sft", "grpo"), (128, 256), (64, 256)
    ):
        case = Case(width=width, prompt=prompt)
        same = str(width), f"{prompt}+{case.answer}"
        found = {r["peer"]: r for r in bench if (r["width"], r["lengths"]) == same}
        rows.append(measure(case, program, found))
        print(rows[-1], flush=True)
    with open(RESULTS / "bench_floor.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            rounded = {
                k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()
            }
            writer.writerow(rounded)


if __name__ == "__main__":
    main()
