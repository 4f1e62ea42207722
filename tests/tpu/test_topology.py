"""Slices: places as the TPU compiler has them, links and hops as a walk finds them."""

import collections
import csv

import numpy as np
import pytest

from helpers.runtime.platform import ROOT
from helpers.tpu import topology

TABLE = ROOT / "data" / "results" / "topologies.csv"
SMALL = ("v5e:1x1", "v5e:2x4", "v5e:16x16")
DEEP = ("v5p:2x2x1", "v4:2x4x4", "v5p:4x4x4")


def compiled():
    """{slice: [(x, y, z, host) of each chip]} as the compiler has them."""
    chips = collections.defaultdict(list)
    with open(TABLE, newline="") as file:
        for row in csv.DictReader(file):
            place = tuple(int(row[key]) for key in ("x", "y", "z", "host"))
            chips[row["slice"]].append(place)
    return chips


@pytest.mark.parametrize("name", compiled())
def test_places_and_hosts_are_those_of_the_compiler(name):
    part = topology.named(name)
    chips = np.column_stack([part.coordinates, part.host_of])
    np.testing.assert_array_equal(chips, compiled()[name])


def walked(part, start):
    """Hops by walking over the links, breadth first."""
    beside = collections.defaultdict(list)
    for a, b in part.links()[0].tolist():
        beside[a].append(b)
        beside[b].append(a)
    far, queue = {start: 0}, collections.deque([start])
    while queue:
        here = queue.popleft()
        for there in beside[here]:
            if there not in far:
                far[there] = far[here] + 1
                queue.append(there)
    return [far[chip] for chip in range(part.chips)]


@pytest.mark.parametrize("name", SMALL + DEEP)
def test_hops_are_the_shortest_walk_over_the_links(name):
    part = topology.named(name)
    starts = {0, part.chips // 3, part.chips - 1}
    for start in starts:
        np.testing.assert_array_equal(part.hops(start), walked(part, start))
    farthest = max(max(walked(part, start)) for start in range(0, part.chips, 5))
    assert part.diameter == farthest, "a corner is as far as it gets"


@pytest.mark.parametrize(
    "name, rings, links, closing",
    [  # in a torus every chip has two links an axis, in a mesh the last one lacks one
        ("v5e:2x4", "", 4 + 6, 0),
        ("v5e:8x8", "", 2 * 8 * 7, 0),
        ("v5e:8x16", "y", 7 * 16 + 8 * 16, 8),
        ("v5e:16x16", "xy", 2 * 256, 32),
        ("v5p:2x4x4", "", 16 + 24 + 24, 0),
        ("v5p:4x4x4", "xyz", 3 * 64, 48),
        ("v4:4x4x8", "xyz", 3 * 128, 32 + 32 + 16),
    ],
)
def test_rings_close_on_full_axes_of_flat_kinds_and_on_whole_cubes(
    name, rings, links, closing
):
    part = topology.named(name)
    axes = "".join(a for a, ring in zip("xyz", part.rings, strict=True) if ring)
    pairs, closes = part.links()
    assert (axes, len(pairs), closes.sum()) == (rings, links, closing)
    assert len({frozenset(pair) for pair in pairs.tolist()}) == links


def test_a_slice_has_its_name_back_and_one_that_is_none_is_refused():
    for name in ("v9:2x2", "v5e:3x3", "v5e", "v5p:2xa"):
        with pytest.raises(ValueError, match="such as v5e:2x4"):
            topology.named(name)
    assert topology.named("v5e-8").name == "v5e:2x4"
    for name in compiled():
        assert topology.named(name).name == name
