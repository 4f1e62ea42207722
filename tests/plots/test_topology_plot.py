"""Pictures of slices: every chip once, links by host; rings dashed; legible words."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d import proj3d
from mpl_toolkits.mplot3d.art3d import Line3DCollection

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


def drawn_at(text, space):
    """Where the words of a text in space stand on the canvas, once it is drawn."""
    x, y, _ = proj3d.proj_transform(*text.get_position_3d(), space.get_proj())
    Text.set_position(text, (x, y))
    whole = text.get_window_extent()
    text.set_text(text.get_text().strip())  # spaces hide nothing
    return Bbox([[whole.x1 - text.get_window_extent().width, whole.y0], whole.max])


@pytest.mark.parametrize("name", ["v5e:1x1", "v5e:4x8", "v5p:4x4x4"])
def test_every_chip_is_drawn_once_and_the_chosen_one_is_orange(name):
    part = topology.named(name)
    drawn = chips_drawn(topology_plot.picture(part, part.chips - 1))
    chips = list(map(tuple, part.coordinates.tolist()))
    assert set(drawn) == set(chips)
    orange, blue = map(to_rgba, (plotting.ORANGE, plotting.BLUE))
    assert drawn.pop(chips[-1]) == orange and set(drawn.values()) <= {blue}


@pytest.mark.parametrize("name", ["v5e:2x4", "v5e:4x8", "v5p:4x4x4"])
def test_thick_blue_links_are_those_within_a_host(name):
    part = topology.named(name)
    axes = topology_plot.picture(part).axes[0]
    groups = [x for x in axes.collections if isinstance(x, Line3DCollection)]
    host = dict(zip(map(tuple, part.coordinates.tolist()), part.host_of, strict=True))
    count = {}
    for group in groups:
        blue = tuple(group.get_edgecolor()[0]) == to_rgba(plotting.BLUE)
        thick = group.get_linewidth()[0]
        for start, end in np.asarray(group._segments3d).round().astype(int).tolist():
            assert np.abs(np.subtract(start, end)).sum() == 1
            assert (host[tuple(start)] == host[tuple(end)]) == blue
            assert thick >= 1.2 if blue else thick < 1
        count[blue] = len(group._segments3d)
    size = part.chips // part.hosts
    assert count[True] == part.hosts * {4: 4, 8: 10}[size], "a square, or 2 x 4"


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
    counts = [bar.get_height() for bar in bars]
    assert sum(counts) == part.chips and counts[0] == 1
    assert len(counts) - 1 == part.hops(3).max()


def test_the_picture_fits_a_narrow_column_and_nothing_else_is_on_its_edge():
    fig = topology_plot.picture(topology.named("v5p:8x8x16"))
    assert fig.get_figwidth() * plotting.PIXELS_PER_INCH <= 700
    title = fig._suptitle.get_window_extent()
    assert 0 <= title.x0 and title.x1 <= fig.bbox.x1


@pytest.mark.parametrize("name", ["v5e:4x8", "v5e:16x16", "v5p:4x4x4", "v5p:8x8x16"])
def test_it_is_legible_on_a_phone(name):
    fig = topology_plot.picture(topology.named(name))
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    space, bars = fig.axes
    texts = [fig._suptitle, *bars.texts, bars.xaxis.label, bars.yaxis.label]
    for axis in (bars.xaxis, bars.yaxis):
        low, high = axis.get_view_interval()
        ticks = [x for x in axis.get_major_ticks() if low <= x.get_loc() <= high]
        texts += [tick.label1 for tick in ticks]
    texts = [text for text in texts if text.get_text()]
    shown = 343 / fig.get_figwidth()  # pixels an inch, 375 less the margins
    assert len(texts) > 10
    assert min(x.get_fontsize() for x in (*texts, *space.texts)) / 72 * shown > 9
    boxes = [text.get_window_extent() for text in texts]
    boxes += [drawn_at(text, space) for text in space.texts]
    for i, box in enumerate(boxes):
        assert 0 <= box.x0 and box.x1 <= fig.bbox.x1
        assert 0 <= box.y0 and box.y1 <= fig.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_no_words_stand_on_a_chip_and_colours_are_two():
    fig = topology_plot.picture(topology.named("v5p:4x4x4"))
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    space = fig.axes[0]
    words = [drawn_at(text, space) for text in space.texts]
    assert len(words) == 3
    for place in chips_drawn(fig):
        x, y, _ = proj3d.proj_transform(*place, space.get_proj())
        x, y = space.transData.transform((x, y))
        assert not any(box.padded(3).contains(x, y) for box in words), place
    colours = {to_rgba(line.get_color()) for line in space.lines}
    colours |= {tuple(bar.get_facecolor()) for bar in fig.axes[1].patches}
    for group in space.collections:
        for found in (group.get_facecolor(), group.get_edgecolor()):
            colours |= {tuple(colour) for colour in found if colour[3] > 0}
    strong = {colour for colour in colours if np.ptp(colour[:3]) > 0.1}
    assert strong == {to_rgba(plotting.BLUE), to_rgba(plotting.ORANGE)}


def test_the_caption_gives_totals_rings_and_hops():
    words = topology_plot.caption(topology.named("v5e:2x4"), 0)
    assert "8 chips, 1 host, 128 GB of HBM, 1.6 PFLOP/s" in words
    assert "no ring" in words and "is 4 hops away, the mean is 2.3" in words
    words = topology_plot.caption(topology.named("v5e:16x16"), 0)
    assert "rings along x and y" in words and "more than 16 apart" in words
