"""Self-checks of notebook 13: bytes on a chip, a layer by hand, gaps, a global mean.

A chip's program runs under `jax.vmap` with a named axis, in which collectives mean the
same as on several chips. So the checks need no second device.
"""

import functools
import pathlib
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from helpers.exercises.check import Check, check_properties
from helpers.tpu import hlo, profiles

CHIPS = 4


def check_bytes_per_chip(answer) -> Check:
    """Bytes of float32 weights and two moments on one chip, under FSDP."""
    rng = np.random.default_rng(13)
    cases = []
    for chips in (1, 2, 4, 8) * 3:
        sizes = rng.integers(1, 17, (3, 3)).tolist()
        shapes = [tuple(size[: rng.integers(1, 4)]) for size in sizes]
        cases.append((shapes, chips))

    def bytes_per_chip(shapes, chips):
        total = 0
        for shape in shapes:
            cut = any(size % chips == 0 for size in shape)
            total += 12 * int(np.prod(shape)) // (chips if cut else 1)
        return total

    properties = {
        "give a number 12 bytes, cut into as many parts as there are chips": [
            ([(64, 32)], 8)
        ],
        "cut a later axis where the first does not divide": [([(3, 16)], 8)],
        "leave an array whole, on every chip, where no axis divides": [
            ([(3, 5), (64, 32), (4, 4), (12, 9)], 8)
        ],
        "be right for any arrays, of one axis to three": cases,
    }
    return check_properties(properties, answer, bytes_per_chip)


def check_rows_to_rows(answer) -> Check:
    """A gated feed-forward part: rows come in cut, weights stay cut, rows leave cut."""
    rng = np.random.default_rng(0)
    B, D, F = 8, 6, 20
    x, gate, up, down = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((B, D), (D, F), (D, F), (F, D))
    )
    columns = [w.reshape(D, CHIPS, -1).swapaxes(0, 1) for w in (gate, up)]
    parts = (x.reshape(CHIPS, -1, D), *columns, down.reshape(CHIPS, -1, D))

    def run(*parts):
        return np.asarray(_on_chips(answer, "chips", *parts)).reshape(B, D)

    def whole(*_):
        return jax.nn.gelu(x @ gate) * (x @ up) @ down

    def collectives():
        """Names of the collectives in one chip's program."""
        one_chip = functools.partial(answer, axis="model")
        trace = jax.make_jaxpr(one_chip, axis_env=[("model", CHIPS)])
        program = str(trace(*(jnp.asarray(part[0]) for part in parts)))
        names = re.findall(r"\b([a-z_]+)\d*\[(?=[^\]]*\baxis_name|axes=)", program)
        known = ("all_gather", "all_to_all", "ppermute", "psum", "reduce_scatter")
        return sorted(name for name in names if name in known)

    properties = {
        "equal the whole computation on one chip, row by row": [parts],
        "send once to collect the rows, and once to add up and deal out": lambda: (
            collectives() == ["all_gather", "reduce_scatter"]
        ),
    }
    return check_properties(properties, run, whole, 1e-3)


def _on_chips(one_chip, axis, *parts):
    """What each chip's program gives, for its parts of the arrays."""
    return jax.vmap(functools.partial(one_chip, axis=axis), axis_name=axis)(*parts)


def listings(mesh) -> dict[str, dict]:
    """Collectives of four compiled steps of one two-layer network, by letter.

    64 rows of width 256, and 1,024 numbers between the layers: each matrix has 1 MiB.

    Args:
      mesh: 8 devices along "data".
    """
    P, cut = PartitionSpec, PartitionSpec("data")
    x, up, down = jnp.ones((64, 256)), jnp.ones((256, 1024)), jnp.ones((1024, 256))
    programs = {
        "A": (_tensor_step, (P(), P(None, "data"), cut), (P(), P(None, "data"), cut)),
        "B": (_fsdp_step, (cut, cut, cut), (P(), cut, cut)),
        "C": (_step, (P(), P(), P()), (P(), P(), P())),
        "D": (_data_step, (cut, P(), P()), (P(), P(), P())),
    }
    by_letter = {}
    for letter, (step, takes, gives) in programs.items():
        specs = {"in_specs": takes, "out_specs": gives}
        # D adds up its gradients itself; under the check JAX would.
        spread = jax.shard_map(step, mesh=mesh, check_vma=letter != "D", **specs)
        compiled = jax.jit(spread).lower(x, up, down).compile()
        by_letter[letter] = hlo.collectives(compiled.as_text())
    return by_letter


def _step(x, up, down, add=lambda y: y):
    """Loss and gradients of what is here; `add` makes a whole of a chip's share."""

    def loss(weights):
        hidden = jax.nn.gelu(x @ weights[0])
        return jnp.mean(add(hidden @ weights[1]) ** 2)

    value, gradient = jax.value_and_grad(loss)((up, down))
    return value, *gradient


def _data_step(x, up, down):
    return tuple(jax.lax.pmean(y, "data") for y in _step(x, up, down))


def _fsdp_step(x, up, down):
    whole = (jax.lax.all_gather(w, "data", tiled=True) for w in (up, down))
    value, *gradient = _step(x, *whole)
    shares = (jax.lax.psum_scatter(g, "data", tiled=True) for g in gradient)
    return jax.lax.pmean(value, "data"), *shares


def _tensor_step(x, up, down):
    return _step(x, up, down, add=lambda y: jax.lax.psum(y, "data"))


def faulty_runs(folder) -> dict:
    """Records two runs of five small steps with one fault each; their folders.

    A step has three spans: `sample`, `score` and `update`.

    Args:
      folder: where the recordings go.
    """
    weights, span = jnp.ones((192, 192)), jax.profiler.TraceAnnotation
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # no span for each call of Python

    def record(letter, seconds=0.0, wider=0):
        @jax.jit
        def update(weights, batch):
            return jnp.tanh(weights @ weights @ batch)

        def step(i):
            with span("sample"):
                batch = np.ones((192, 64 + wider * i), np.float32)
            with span("score"):
                time.sleep(seconds)
            with span("update"):
                update(weights, batch).block_until_ready()

        path = pathlib.Path(folder) / letter
        step(0)
        with jax.profiler.trace(path, profiler_options=options):
            for i in range(1, 6):
                with jax.profiler.StepTraceAnnotation("train", step_num=i):
                    step(i)
        return path

    return {"A": record("A", seconds=0.1), "B": record("B", wider=1)}


def check_longest_gap(answer) -> Check:
    """The longest time of a recording in which no operation ran."""
    rng = np.random.default_rng(13)
    cases = []
    while len(cases) < 60:
        count = rng.integers(0, 7)
        pairs = np.stack([rng.integers(-5, 30, count), rng.integers(1, 8, count)], 1)
        operations = [(start, length) for start, length in pairs.tolist()]
        case = operations, int(rng.integers(0, 6)), int(rng.integers(15, 30))
        gaps = sorted(length for _, length in profiles.gaps(*case))
        if gaps and gaps[-1] > sum(gaps[-2:-1]):  # one is the longest
            cases.append(case)

    def longest(*case):
        return max(profiles.gaps(*case), key=lambda gap: gap[1])

    properties = {
        "find the time between two operations": [([(0, 3), (7, 3)], 0, 10)],
        "take operations in any order": [([(8, 2), (0, 3), (6, 1)], 0, 10)],
        "look before the first operation, too": [([(7, 1), (9, 1)], 2, 10)],
        "be right for any operations, also before the start and after the end": cases,
    }
    return check_properties(properties, answer, longest, 1e-9)


def check_global_mean(answer) -> Check:
    """The mean over all tokens of all chips, of which each holds its own rows."""
    rng = np.random.default_rng(1)
    losses = rng.uniform(1, 9, (CHIPS, 6)).astype(np.float32)

    def means(axis, *counts):
        """What each chip gives where the chips have so many tokens."""
        mask = (np.arange(6) < np.array(counts)[:, None]).astype(np.float32)
        return np.asarray(_on_chips(answer, axis, losses, mask))

    def global_mean(axis, *counts):
        learned = [row[:count] for row, count in zip(losses, counts, strict=True)]
        return np.full(CHIPS, np.concatenate(learned).mean())

    properties = {
        "be the mean over all tokens when chips have equally many": [
            ("data", 3, 3, 3, 3)
        ],
        "be that also when chips have 6, 1, 2 and 5 tokens": [("data", 6, 1, 2, 5)],
        "be that also when a chip has none": [("data", 6, 0, 2, 5)],
        "add up along `axis`, whatever it is called": [("chips", 6, 1, 2, 5)],
    }
    return check_properties(properties, means, global_mean, 1e-5)
