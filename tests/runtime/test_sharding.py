import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.runtime.sharding import cached_pieces, make_mesh, partition, place_batch

LAYERS = (jax.tree_util.GetAttrKey("layers"), jax.tree_util.GetAttrKey("up"))
EMBED = (jax.tree_util.GetAttrKey("embed"),)


@given(
    shape=st.lists(st.sampled_from([1, 3, 4, 8, 12, 24, 640]), max_size=4),
    devices=st.sampled_from([1, 4, 8]),
    path=st.sampled_from([LAYERS, EMBED]),
)
def test_the_largest_axis_that_divides_is_cut_and_never_the_layers(
    shape, devices, path
):
    spec = partition(path, tuple(shape), devices)
    cut = [axis for axis, name in enumerate(spec) if name == "data"]
    allowed = {
        axis: size
        for axis, size in enumerate(shape)
        if size % devices == 0 and not (path is LAYERS and axis == 0)
    }
    if not allowed:
        assert cut == []
    else:
        (axis,) = cut
        assert allowed[axis] == max(allowed.values())


@given(
    name=st.sampled_from(["q", "up", "o", "down", "embed", "q_a", "o_b", "ff_norm"]),
    shape=st.tuples(*[st.sampled_from([2, 3, 4, 6, 8, 64])] * 3),
    data=st.sampled_from([1, 2, 4]),
    model=st.sampled_from([2, 4]),
)
def test_matrices_are_cut_along_what_they_make_or_take(name, shape, data, model):
    """q and up by columns, o and down by rows; data takes an axis that is left."""
    path = (jax.tree_util.DictKey("layers"), jax.tree_util.DictKey(name))
    spec = tuple(partition(path, shape, data, model)) + (None,) * 3
    wanted = {"q": 2, "up": 2, "o": 1, "down": 1, "embed": 1}.get(name)
    if wanted is None or shape[wanted] % model:
        assert "model" not in spec
    else:
        assert spec[wanted] == "model"
    assert spec[0] is None and spec.count("model") <= 1 and spec.count("data") <= 1
    free = [axis for axis in (1, 2) if shape[axis] % data == 0 and spec[axis] is None]
    assert "data" in spec or not free


@given(rows=st.integers(1, 96), width=st.integers(1, 3000))
def test_a_cpu_takes_as_few_rows_at_a_time_as_make_a_thousand_tokens(rows, width):
    batch = {"tokens": np.zeros((rows, width)), "weight": np.zeros(rows)}
    pieces = cached_pieces(batch, rows, make_mesh())
    size = rows // pieces
    assert rows % pieces == 0
    assert pieces == 1 or size * width >= 1024
    smaller = [n for n in range(1, size) if rows % n == 0]
    assert all(n * width < 1024 for n in smaller)
    placed = place_batch(batch, make_mesh(), accumulate=None)
    assert placed["tokens"].shape == (1, pieces, size, width)
