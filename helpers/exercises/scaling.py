"""Self-checks of notebook 13: bytes on a chip, and a layer by hand."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties

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
    """A gated feed-forward part: rows come in cut, weights stay cut, rows leave cut.

    A chip's program runs under `jax.vmap` with a named axis, in which collectives mean
    the same as on several chips. So the check needs no second device.
    """
    rng = np.random.default_rng(0)
    x, gate, up, down = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((8, 6), (6, 20), (6, 20), (20, 6))
    )
    columns = [np.stack(np.split(w, CHIPS, axis=1)) for w in (gate, up)]
    parts = (np.split(x, CHIPS), *columns, np.split(down, CHIPS))
    parts = tuple(map(np.stack, parts))

    def on_chips(*parts):
        one_chip = functools.partial(answer, axis="chips")
        return np.concatenate(jax.vmap(one_chip, axis_name="chips")(*parts))

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
    return check_properties(properties, on_chips, whole, 1e-3)
