"""Self-check of notebook 13 about recordings: two faulty runs, and the longest gap."""

import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties, leaves_alone


def faulty_runs(folder) -> dict:
    """Records two runs of five small steps with one fault each; their folders.

    A step has three spans: `sample`, `score` and `update`.

    Args:
      folder: where the recordings go.
    """
    weights, span = jnp.ones((192, 192)), jax.profiler.TraceAnnotation
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # no span for each call of Python
    faults = {"A": {"seconds": 0.1}, "B": {"wider": 1}}

    def recorded(letter, seconds=0.0, wider=0):
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

        step(0)
        with jax.profiler.trace(
            pathlib.Path(folder) / letter, profiler_options=options
        ):
            for i in range(1, 6):
                with jax.profiler.StepTraceAnnotation("train", step_num=i):
                    step(i)
        return pathlib.Path(folder) / letter

    return {letter: recorded(letter, **fault) for letter, fault in faults.items()}


def check_longest_gap(answer) -> Check:
    """The longest time of a recording in which no operation ran."""

    def gives(begin, length, operations, start, end):
        found = answer([(float(b), float(s)) for b, s in operations], start, end)
        return np.allclose(found, (begin, length), atol=1e-9)

    rng = np.random.default_rng(13)
    drawn = [_drawn(rng) for _ in range(60)]
    return check_properties(
        (
            "find the time between two operations",
            lambda: gives(3, 4, [(0, 3), (7, 3)], 0, 10),
        ),
        (
            "not take an operation's start for its end",
            lambda: gives(5, 3, [(0, 5), (8, 1), (9, 1)], 0, 10),
        ),
        (
            "take operations in any order",
            lambda: gives(3, 3, [(8, 2), (0, 3), (6, 1)], 0, 10),
        ),
        (
            "see that one thread works while another has finished",
            lambda: gives(8, 2, [(0, 8), (1, 1), (5, 1)], 0, 10),
        ),
        (
            "look before the first operation, too",
            lambda: gives(2, 5, [(7, 1), (9, 1)], 2, 10),
        ),
        ("look after the last one, too", lambda: gives(3, 7, [(0, 3)], 0, 10)),
        ("give all of the time if nothing ran", lambda: gives(4, 6, [], 4, 10)),
        (
            "stop at the end, also where an operation begins later",
            lambda: gives(6, 4, [(0, 6), (30, 1)], 0, 10),
        ),
        (
            "begin at the start, whatever ran before it",
            lambda: gives(5, 3, [(-9, 2), (8, 2)], 5, 10),
        ),
        (
            "count an operation that was running at the start",
            lambda: gives(5, 2, [(-3, 8), (7, 3)], 0, 10),
        ),
        (
            "be right for any operations on several threads",
            lambda: all(gives(*_walked(*case), *case) for case in drawn),
        ),
        (
            "leave the list of operations in its order",
            lambda: leaves_alone(answer, [(8.0, 2.0), (0.0, 3.0)], 0.0, 10.0),
        ),
    )


def _drawn(rng):
    """Operations (start, seconds) and a window, one gap longer than all others."""
    while True:
        count = rng.integers(0, 7)
        starts, lengths = rng.integers(-5, 30, count), rng.integers(1, 8, count)
        operations = list(zip(starts.tolist(), lengths.tolist(), strict=True))
        start, end = int(rng.integers(0, 6)), int(rng.integers(15, 30))
        runs = _idle(operations, start, end)
        lengths = sorted((length for _, length in runs), reverse=True)
        if lengths and lengths[0] > sum(lengths[1:2]):
            return operations, start, end


def _idle(operations, start, end):
    """(begin, length) of each run of idle ticks, by asking every tick."""
    runs: list[tuple[int, int]] = []
    for tick in range(start, end):
        if any(begin <= tick < begin + length for begin, length in operations):
            continue
        if runs and sum(runs[-1]) == tick:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((tick, 1))
    return runs


def _walked(operations, start, end):
    return max(_idle(operations, start, end), key=lambda run: run[1])
