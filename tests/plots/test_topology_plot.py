"""Pictures of slices: every chip once, links by host."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from helpers.plots import plotting, topology_plot
from helpers.tpu import topology


def chips_drawn(fig):
    """{(x, y, z): colour} of the filled markers."""
    drawn = {}
    for group in fig.axes[0].collections:
        faces = getattr(group, "get_facecolor", lambda: [])()
        if hasattr(group, "_offsets3d") and len(faces) and faces[0][3] > 0:
            for place in zip(*group._offsets3d, strict=True):
                drawn[tuple(map(int, place))] = tuple(faces[0])
    return drawn


@pytest.mark.parametrize("name, rings", [("v5e:4x8", 0), ("v5p:4x4x4", 3)])
def test_chips_links_rings_and_hops_are_those_of_the_slice(name, rings):
    part = topology.named(name)
    last = part.chips - 1
    fig = topology_plot.picture(part, last)
    space, bars = fig.axes
    drawn, chips = chips_drawn(fig), list(map(tuple, part.coordinates.tolist()))
    assert set(drawn) == set(chips)
    orange, blue = map(to_rgba, (plotting.ORANGE, plotting.BLUE))
    assert drawn.pop(chips[last]) == orange and set(drawn.values()) == {blue}
    host = dict(zip(chips, part.host_of, strict=True))
    for group in (x for x in space.collections if isinstance(x, Line3DCollection)):
        within_host = tuple(group.get_edgecolor()[0]) == blue
        for start, end in np.asarray(group._segments3d).round().astype(int).tolist():
            assert np.abs(np.subtract(start, end)).sum() == 1
            assert (host[tuple(start)] == host[tuple(end)]) == within_host
    assert [line.get_linestyle() for line in space.lines] == ["--"] * rings
    counts = [bar.get_height() for bar in bars.patches]
    assert counts == np.bincount(part.hops(last)).tolist()
