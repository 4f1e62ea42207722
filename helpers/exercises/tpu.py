"""Self-checks of notebook 01: intensity, the turning batch, buckets, hops."""

import collections

from helpers.exercises.check import Check, judge

RIDGE = 197e12 / 819e9  # of v5e, FLOP/byte


def check_intensity(answer) -> Check:
    """FLOPs per byte moved of (B, D) @ (D, F)."""
    return judge(
        (
            "be close to 1 for one row in bfloat16: a weight is read for two FLOPs",
            lambda: _near(answer(1, 4096, 4096, 2), 1, 1e-3),
        ),
        (
            "halve when a number takes twice the bytes",
            lambda: _near(answer(8, 32, 16, 2), 2 * answer(8, 32, 16, 4)),
        ),
        (
            "be 2 for B = D = F = 3 and 1 byte a number: 54 FLOPs, and each of the "
            "three matrices moved once",
            lambda: _near(answer(3, 3, 3, 1), 2),
        ),
        (
            "not care which of the two outer sizes is which",
            lambda: _near(answer(3, 50, 7, 2), answer(7, 50, 3, 2)),
        ),
        (
            "be right for matrices of three different sizes",
            lambda: _near(answer(5, 2, 3, 1), 60 / (10 + 6 + 15)),
        ),
    )


def check_turning_batch(answer) -> Check:
    """The first batch at which a product is no longer limited by memory."""

    def scanned(D, F, ridge):
        for B in range(1, 5000):
            if B * D * F / (B * D + D * F + B * F) >= ridge:
                return B

    return judge(
        (
            "be a whole number",
            lambda: answer(4096, 4096, RIDGE) == int(answer(4096, 4096, RIDGE)),
        ),
        (
            "come close to the ridge for very wide matrices",
            lambda: answer(10**6, 10**6, RIDGE) == 241,
        ),
        (
            "be larger for narrow matrices: their rows are moved, too",
            lambda: answer(1024, 1024, RIDGE) > answer(4096, 4096, RIDGE),
        ),
        ("round up", lambda: answer(4096, 4096, RIDGE) == scanned(4096, 4096, RIDGE)),
        (
            "be None where no batch is large enough, as for 256 by 256",
            lambda: answer(256, 256, RIDGE) is None,
        ),
        (
            "be right for any shape and any ridge",
            lambda: all(
                answer(D, F, ridge) == scanned(D, F, ridge)
                for D, F in ((896, 4864), (4864, 896), (640, 2048))
                for ridge in (20.0, 100.0, RIDGE)
            ),
        ),
    )


def check_bucket(answer) -> Check:
    """The smallest of a few lengths that holds a text."""

    def refuses():
        try:
            answer(300, (64, 128, 256))
        except ValueError:
            return True
        return False

    return judge(
        ("keep a length that is a bucket", lambda: answer(64, (64, 128)) == 64),
        ("go up to the next bucket", lambda: answer(65, (64, 128)) == 128),
        ("take the smallest that holds it", lambda: answer(3, (64, 128, 256)) == 64),
        (
            "not depend on the order of the buckets",
            lambda: answer(100, (256, 64, 128)) == 128,
        ),
        ("raise ValueError for what no bucket holds", refuses),
    )


def check_hops(answer) -> Check:
    """Links on the shortest way between two chips, with and without rings."""

    def agrees(shape, rings):
        far = _walk(shape, rings)
        origin = (0,) * len(shape)
        return all(answer(origin, at, shape, rings) == far[at] for at in far)

    flat, none = (4, 8, 1), (False, False, False)
    return judge(
        (
            "be 0 from a chip to itself",
            lambda: answer((1, 2, 0), (1, 2, 0), flat, none) == 0,
        ),
        ("be 1 to a neighbour", lambda: answer((0, 2, 0), (1, 2, 0), flat, none) == 1),
        ("add up the axes", lambda: answer((0, 0, 0), (3, 7, 0), flat, none) == 10),
        (
            "be the same both ways",
            lambda: answer((3, 7, 0), (0, 0, 0), flat, none) == 10,
        ),
        (
            "go round a ring where that is shorter",
            lambda: (
                answer((0, 0, 0), (15, 0, 0), (16, 16, 1), (True, True, False)) == 1
            ),
        ),
        (
            "go straight where that is shorter",
            lambda: answer((0, 0, 0), (5, 0, 0), (16, 16, 1), (True, True, False)) == 5,
        ),
        (
            "use rings only along axes that have them",
            lambda: agrees((4, 6, 1), (False, True, False)),
        ),
        ("be right in three dimensions", lambda: agrees((4, 4, 8), (True, True, True))),
    )


def _walk(shape, rings):
    """{place: links from the origin}, by walking over all links."""
    far, queue = {(0, 0, 0): 0}, collections.deque([(0, 0, 0)])
    while queue:
        here = queue.popleft()
        for axis, (size, ring) in enumerate(zip(shape, rings, strict=True)):
            for step in (-1, 1):
                there = list(here)
                there[axis] += step
                if ring:
                    there[axis] %= size
                there = tuple(there)
                if 0 <= there[axis] < size and there not in far:
                    far[there] = far[here] + 1
                    queue.append(there)
    return far


def _near(value, truth, tolerance=1e-9):
    return abs(value - truth) <= tolerance * abs(truth)
