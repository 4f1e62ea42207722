"""Pictures of slices: every chip once, by host; rings dashed; words beside them."""

import numpy as np
import pytest

from helpers.plots import plotting, topology_plot
from helpers.tpu import topology


def chips_drawn(fig):
    """{(x, y, z): colour} of the filled markers."""
    found = {}
    for group in fig.axes[0].collections:
        faces = getattr(group, "get_facecolor", lambda: [])()
        if hasattr(group, "_offsets3d") and len(faces) and faces[0][3] > 0:
            for place in zip(*group._offsets3d, strict=True):
                assert tuple(place) not in found, "drawn twice"
                found[tuple(map(int, place))] = tuple(faces[0])
    return found


@pytest.mark.parametrize("name", ["v5e:1x1", "v5e:4x8", "v5p:4x4x4"])
def test_every_chip_is_drawn_once_in_one_colour_per_host(name):
    part = topology.named(name)
    drawn = chips_drawn(topology_plot.picture(part))
    assert set(drawn) == set(map(tuple, part.coordinates.tolist()))
    host = dict(zip(map(tuple, part.coordinates.tolist()), part.host_of, strict=True))
    for a, b in part.coordinates[part.links()[0]].tolist():
        a, b = tuple(a), tuple(b)
        if host[a] == host[b]:
            assert drawn[a] == drawn[b]
        elif np.abs(np.subtract(a, b)).sum() == 1:
            assert drawn[a] != drawn[b], "neighbouring hosts look alike"


def test_rings_of_the_chosen_chip_are_whole_and_dashed():
    flat = topology_plot.picture(topology.named("v5e:8x8")).axes[0]
    pod = topology_plot.picture(topology.named("v5e:16x16"), 40).axes[0]
    cube = topology_plot.picture(topology.named("v5p:4x4x4"), 9).axes[0]
    dashed = [
        [line.get_linestyle() for line in axes.lines] for axes in (flat, pod, cube)
    ]
    assert dashed == [[], ["--"] * 2, ["--"] * 3]


@pytest.mark.parametrize("name", ["v5e:2x4", "v4:8x8x16"])
def test_bars_count_all_chips_by_hops(name):
    part = topology.named(name)
    bars = topology_plot.picture(part, 3).axes[1].patches
    counts = [bar.get_width() for bar in bars]
    assert sum(counts) == part.chips and counts[0] == 1
    assert len(counts) - 1 == part.hops(3).max()


def test_the_picture_fits_a_narrow_column_and_nothing_else_is_on_its_edge():
    fig = topology_plot.picture(topology.named("v5p:8x8x16"))
    assert fig.get_figwidth() * plotting.PIXELS_PER_INCH <= 700
    title = fig._suptitle.get_window_extent()
    assert 0 <= title.x0 and title.x1 <= fig.bbox.x1


def test_the_caption_gives_totals_rings_and_hops():
    words = topology_plot.caption(topology.named("v5e:2x4"), 0)
    assert "8 chips, 1 host, 128 GB of HBM, 1.6 PFLOP/s" in words
    assert "no ring" in words and "is 4 hops away, the mean is 2.3" in words
    words = topology_plot.caption(topology.named("v5e:16x16"), 0)
    assert "rings along x and y" in words and "more than 16 apart" in words
