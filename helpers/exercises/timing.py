"""Self-checks of notebook 13c: the longest gap, and the least time of a program."""

import collections
import operator

import numpy as np

from helpers.exercises.check import Check, check_properties


def check_longest_gap(answer) -> Check:
    """The longest time of a recording in which no operation ran."""

    def gaps(operations, start, end):
        """(begin, length) of all free times, also parts of others, in whole numbers."""
        busy = {t for begin, length in operations for t in range(begin, begin + length)}
        pairs = [(t, n) for t in range(start, end) for n in range(1, end - t + 1)]
        return [(t, n) for t, n in pairs if busy.isdisjoint(range(t, t + n))]

    rng, cases = np.random.default_rng(13), []
    while len(cases) < 60:
        count = rng.integers(0, 7)
        begins, lengths = rng.integers(-5, 30, count), rng.integers(1, 8, count)
        operations = list(zip(begins.tolist(), lengths.tolist(), strict=True))
        case = operations, int(rng.integers(0, 6)), int(rng.integers(15, 30))
        free = sorted(length for _, length in gaps(*case))
        if free and free[-1] > sum(free[-2:-1]):  # one is the longest
            cases.append(case)
    properties = {
        "find the time between two operations": [([(0, 3), (7, 3)], 0, 10)],
        "take operations in any order": [([(8, 2), (0, 3), (6, 1)], 0, 10)],
        "look before the first operation, too": [([(7, 1), (9, 1)], 2, 10)],
        "be right for any operations, also before the start and after the end": cases,
    }

    def longest(*case):
        return max(gaps(*case), key=operator.itemgetter(1))

    return check_properties(properties, answer, longest, 1e-9)


def check_least_seconds(answer) -> Check:
    """Seconds of each phase of a program at the peak and the bandwidth of a chip."""
    rng, cases = np.random.default_rng(3), []
    for _ in range(20):  # powers of two divide without rounding
        numbers = rng.integers(1, 1000, (8, 3)).tolist()
        phases = rng.choice(["forward", "again", "backward"], 8).tolist()
        program = [(phase, *row) for phase, row in zip(phases, numbers, strict=True)]
        cases.append((program, *(2.0 ** rng.integers(1, 9, 2)).tolist()))

    def least(program, peak, bandwidth):
        seconds = collections.Counter()
        for phase, times, flops, moved in program:
            seconds[phase] += times * max(flops / peak, moved / bandwidth)
        return dict(seconds)

    both = [("forward", 1, 8, 2), ("forward", 1, 2, 8)]
    properties = {
        "take the longer of arithmetic and memory": [([("again", 1, 8, 2)], 2.0, 1.0)],
        "count each time that an instruction runs": [([("again", 5, 8, 2)], 2.0, 1.0)],
        "compare the two for each instruction, and then add up": [(both, 1.0, 1.0)],
        "be right for any program and chip": cases,
    }
    return check_properties(properties, answer, least)
