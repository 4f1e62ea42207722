"""NF4 against its published levels, and a transcription that goes block by block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.model import quantized

# QLoRA, appendix E.
PUBLISHED = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)
# Half a byte's block, one, and two groups; each combination is two programs.
KINDS = (((2, 3), jnp.float32), ((64, 5), jnp.bfloat16), ((130, 140), jnp.float32))
encode, decode = (
    jax.jit(quantized.encode_nf4, static_argnums=1),
    jax.jit(quantized.decode_nf4),
)


def in_numpy(parts):
    """What stored arrays stand for, one number at a time, in float64."""
    codes, scales = np.asarray(parts[""]), scales_in_numpy(parts)
    half, columns = codes.shape
    matrix = np.empty((2 * half, columns))
    for row in range(2 * half):
        for column in range(columns):
            byte = int(codes[row % half, column])
            code = byte % 16 if row < half else byte // 16
            matrix[row, column] = PUBLISHED[code] * scales[row // 64, column]
    return matrix


def scales_in_numpy(parts):
    """The scales of blocks; those in 8 bits are a mean, and a whole number of steps."""
    scale = np.asarray(parts["_scale"])
    if scale.dtype == np.float32:
        return scale.astype(np.float64)
    steps, (mean,) = (np.asarray(parts[f"_scale_{x}"]) for x in ("step", "mean"))
    away = [int(code) * float(steps[i // 256]) for i, code in enumerate(scale.flat)]
    return np.maximum(np.reshape(away, scale.shape) + mean, 0)


@st.composite
def matrices(draw):
    """(in, out) with blocks that are zero, large, or tiny; of float32 or bfloat16."""
    (rows, columns), dtype = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    blocks = -(-rows // 64)
    sizes = draw(st.sampled_from([(1.0,), (0.02, 0.0), (1e-6, 1.0, 300.0)]))
    size = rng.choice(sizes, (blocks, columns)).repeat(64, axis=0)[:rows]
    draws = [rng.normal(size=(rows, columns)), rng.integers(-2, 3, (rows, columns))]
    return np.asarray(draws[draw(st.integers(0, 1))] * size, dtype)


def in_blocks(matrix):
    """Every block of every column of a matrix, and its scale's place."""
    for column in range(matrix.shape[1]):
        for block, first in enumerate(range(0, len(matrix), 64)):
            yield matrix[first : first + 64, column], (block, column)


def test_the_levels_are_the_published_ones():
    np.testing.assert_allclose(quantized.LEVELS, PUBLISHED, rtol=1e-6, atol=1e-7)
    assert (
        quantized.LEVELS[0] == -1
        and quantized.LEVELS[7] == 0
        and quantized.LEVELS[15] == 1
    )


@given(weight=matrices(), double=st.booleans())
@example(weight=np.zeros((64, 5), jnp.bfloat16), double=True)
@example(weight=np.full((2, 3), -7.0, np.float32), double=False)
@settings(max_examples=10, deadline=None)
def test_what_is_stored_is_the_nearest_level_of_each_number(weight, double):
    parts = encode(weight, double)
    exact = np.asarray(weight, np.float64)
    relative_to = scales_in_numpy(encode(weight))
    stored, decoded = in_numpy(parts), np.asarray(decode(parts))
    np.testing.assert_allclose(decoded, stored, rtol=1e-5, atol=1e-6 * stored.max())
    scales, stored = scales_in_numpy(parts), stored.copy()
    for block_values, (block, column) in in_blocks(exact):
        largest, scale = np.abs(block_values).max(), scales[block, column]
        assert relative_to[block, column] == np.float32(largest)
        if scale == 0:
            continue
        rows = slice(64 * block, 64 * block + 64)
        levels = stored[rows, column] / scale
        nearest = np.abs(
            block_values[:, None] / max(largest, 1e-30) - np.array(PUBLISHED)
        )
        chosen = np.abs(block_values / max(largest, 1e-30) - levels)
        np.testing.assert_allclose(chosen, nearest.min(axis=1), atol=1e-6)


@given(weight=matrices())
@settings(max_examples=10, deadline=None)
def test_a_scale_in_8_bits_is_off_by_at_most_half_a_step_and_turns_no_sign(weight):
    once, twice = encode(weight), encode(weight, double=True)
    np.testing.assert_array_equal(once[""], twice[""])
    exact = np.asarray(once["_scale"], np.float64)
    away = np.abs(exact.ravel() - exact.mean())
    off = np.abs(scales_in_numpy(twice) - exact).ravel()
    for first in range(0, off.size, 256):
        group = slice(first, first + 256)
        bound = away[group].max() / 254
        assert (off[group] <= bound + 1e-6 * exact.max()).all()
    decoded = np.asarray(decode(twice), np.float64)
    assert (decoded * np.asarray(weight, np.float64) >= 0).all()


def test_an_odd_number_of_rows_is_refused_by_name():
    with pytest.raises(ValueError, match="3 × 2 cannot.*3 is odd.*int8"):
        quantized.encode_nf4(jnp.ones((3, 2)))
