"""Self-checks of notebook 13: bytes on a chip, a layer by hand, a mean over chips.

A chip's program is tried on chips played by `jax.vmap` with a named axis, on which the
collectives mean the same; so the checks need no second device.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from helpers.exercises.check import Check, check_properties, leaves_alone
from helpers.exercises.recordings import check_longest_gap, faulty_runs
from helpers.tpu import where_time_goes

__all__ = [
    "check_bytes_per_chip",
    "check_global_mean",
    "check_longest_gap",
    "check_rows_to_rows",
    "faulty_runs",
    "listings",
]

CHIPS = 4


def check_bytes_per_chip(answer) -> Check:
    """Bytes of float32 weights and two moments on one chip, under FSDP."""
    rng = np.random.default_rng(13)
    arrays = [
        [tuple(rng.integers(1, 17, rng.integers(1, 4)).tolist()) for _ in range(3)]
        for _ in range(10)
    ]
    return check_properties(
        (
            "give 12 bytes for a lone number on one chip: a weight and two moments",
            lambda: answer([()], 1) == 12,
        ),
        (
            "give 12 bytes for every number of a matrix on one chip",
            lambda: answer([(3, 5)], 1) == 180,
        ),
        ("add up all arrays", lambda: answer([(3, 5), (2,)], 1) == 180 + 24),
        (
            "give each of 8 chips an eighth of a matrix that can be cut",
            lambda: answer([(64, 32)], 8) == 64 * 32 * 12 / 8,
        ),
        (
            "cut a later axis where the first does not divide",
            lambda: answer([(3, 16)], 8) == 3 * 16 * 12 / 8,
        ),
        (
            "leave an array whole, on every chip, where no axis divides",
            lambda: answer([(3, 5), (64, 32)], 8) == 180 + 64 * 32 * 12 / 8,
        ),
        (
            "not take two axes together: 8 chips cannot cut (4, 4)",
            lambda: answer([(4, 4)], 8) == 4 * 4 * 12,
        ),
        (
            "not cut an axis that is long enough, but does not divide",
            lambda: answer([(12, 9)], 8) == 12 * 9 * 12,
        ),
        (
            "be right for any arrays, of one axis to three",
            lambda: all(
                answer(list(shapes), chips) == _held(shapes, chips)
                for shapes in arrays
                for chips in (1, 2, 4, 8)
            ),
        ),
        (
            "leave the list of shapes as it is",
            lambda: leaves_alone(answer, [(3, 16), (8,)], 8),
        ),
    )


def _held(shapes, chips):
    """Bytes on a chip, by walking over axes; the divisor is found at most once."""
    total = 0
    for shape in shapes:
        numbers = 1
        for size in shape:
            numbers *= size
        divides = [size for size in shape if size // chips * chips == size]
        total += 3 * 4 * (numbers // chips if divides else numbers)
    return total


def _gated(x, gate, up, down):
    return jax.nn.gelu(x @ gate) * (x @ up) @ down


def check_rows_to_rows(answer) -> Check:
    """A gated feed-forward part: rows come in cut, weights stay cut, rows leave cut."""
    rng = np.random.default_rng(0)
    B, D, F = 8, 6, 20
    x, gate, up, down = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((B, D), (D, F), (D, F), (F, D))
    )
    rows = x.reshape(CHIPS, B // CHIPS, D)
    columns = [w.reshape(D, CHIPS, -1).swapaxes(0, 1) for w in (gate, up)]
    pieces = (rows, *columns, down.reshape(CHIPS, -1, D))

    @functools.cache
    def tried(axis="model"):
        one_chip = functools.partial(answer, axis=axis)
        return np.asarray(jax.vmap(one_chip, axis_name=axis)(*pieces))

    @functools.cache
    def program():
        shapes = [jnp.asarray(piece[0]) for piece in pieces]
        one_chip = functools.partial(answer, axis="model")
        made = jax.make_jaxpr(one_chip, axis_env=[("model", CHIPS)])(*shapes)
        return re.findall(r"\b([a-z_]+)\d*\[(?=[^\]]*\baxis_name|axes=)", str(made))

    def runs(*kinds):
        return sorted(name for name in program() if name in _COLLECTIVES) == [*kinds]

    return check_properties(
        (
            "give each chip as many rows as it was handed",
            lambda: tried().shape == rows.shape,
        ),
        (
            "equal the whole computation on one chip, row by row",
            lambda: np.allclose(tried().reshape(B, D), _gated(x, gate, up, down), 1e-4),
        ),
        (
            "send along `axis`, whatever it is called",
            lambda: np.array_equal(tried("chips"), tried()),
        ),
        (
            "send once to collect the rows and once to add up and deal out the results",
            lambda: runs("all_gather", "reduce_scatter"),
        ),
    )


_COLLECTIVES = ("all_gather", "all_to_all", "ppermute", "psum", "reduce_scatter")


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
    found = {}
    for letter, (step, takes, gives) in programs.items():
        # D adds up its gradients itself; under the check JAX would.
        own = {"check_vma": letter != "D"}
        spread = jax.shard_map(step, mesh=mesh, in_specs=takes, out_specs=gives, **own)
        compiled = jax.jit(spread).lower(x, up, down).compile()
        found[letter] = where_time_goes.collectives(compiled.as_text())
    return found


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


def check_global_mean(answer) -> Check:
    """The mean over all tokens of all chips, of which each holds its own rows."""
    rng = np.random.default_rng(1)
    losses = rng.uniform(1, 9, (CHIPS, 6)).astype(np.float32)
    even = np.tile([1.0, 1, 1, 0, 0, 0], (CHIPS, 1)).astype(np.float32)
    uneven = (np.arange(6) < np.array([[6], [1], [2], [5]])).astype(np.float32)
    empty = uneven * np.array([[1], [0], [1], [1]], np.float32)

    def tried(mask, axis="data"):
        one_chip = functools.partial(answer, axis=axis)
        return np.asarray(jax.vmap(one_chip, axis_name=axis)(losses, mask))

    def equal(mask):
        return np.allclose(tried(mask), (losses * mask).sum() / mask.sum(), rtol=1e-5)

    return check_properties(
        ("give one number on each chip", lambda: tried(even).shape == (CHIPS,)),
        ("give all chips the same number", lambda: np.ptp(tried(uneven)) < 1e-5),
        (
            "be the mean over all tokens when chips have equally many",
            lambda: equal(even),
        ),
        ("be that also when chips have 6, 1, 2 and 5 tokens", lambda: equal(uneven)),
        ("be that also when a chip has none", lambda: equal(empty)),
        (
            "add up along `axis`, whatever it is called",
            lambda: np.array_equal(tried(uneven, "chips"), tried(uneven)),
        ),
    )
