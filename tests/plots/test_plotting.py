"""Figures show what they should: data drawn, labels apart, white canvas, alt text."""

import html
import io
import re

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from helpers.plots import markup, plotting

LABELS = {"title": "A finding", "xlabel": "x, unit", "ylabel": "y, unit"}
QUICK = settings(deadline=None, max_examples=10)


def texts(fig):
    return {text.get_text() for text in fig.axes[0].texts}


def boxes_of_labels(fig):
    FigureCanvasAgg(fig).draw()
    return [text.get_window_extent() for text in fig.axes[0].texts]


def test_an_image_is_white_and_opaque_with_escaped_alt_text(monkeypatch):
    outputs, alt = [], 'Reward "rises" & stays < 1'
    monkeypatch.setattr(markup, "display", outputs.append)
    fig = plotting.lines([0, 1], {"a run with a long name": [0, 1]}, **LABELS)
    plotting.show(fig, alt)
    tag = re.fullmatch(r'<img alt="([^"]*)" width="(\d+)" [^<>]*>', outputs[0])
    assert html.unescape(tag[1]) == alt and tag[2] == "672"
    with pytest.raises(ValueError, match="alt text"):
        plotting.show(fig, " ")
    image = matplotlib.image.imread(io.BytesIO(plotting.png(fig)))
    assert image.shape[2] == 3 or image[..., 3].min() == 1.0
    assert (image[0, :, :3] == 1).all() and (image[:, 0, :3] == 1).all()
    (box,) = boxes_of_labels(fig)
    assert 0 <= box.x0 and box.x1 <= fig.bbox.x1, "the name is not cut off"


@QUICK
@given(ends=st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_names_at_the_ends_never_overlap(ends):
    series = {f"run {i}": [0.5, end] for i, end in enumerate(ends)}
    fig = plotting.lines([0, 1], series, **LABELS)
    boxes = sorted(boxes_of_labels(fig), key=lambda box: box.y0)
    for lower, upper in zip(boxes, boxes[1:], strict=False):
        assert upper.y0 >= lower.y1 - 1, "labels overlap by more than a pixel"


@QUICK
@given(
    stops=st.lists(st.integers(10, 59), min_size=1, max_size=3),
    heights=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_the_name_of_a_shorter_line_hides_no_line_and_no_name(stops, heights):
    runs = {"whole": [{"step": i, "right": heights[0]} for i in range(61)]}
    for stop, height in zip(stops, heights[1:], strict=False):
        table = [{"step": i, "right": height} for i in range(stop)]
        runs[f"run {len(runs)}"] = table
    fig = plotting.curves(runs, "right", title="T", ylabel="share")
    axes, boxes = fig.axes[0], boxes_of_labels(fig)
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other.padded(-1)) for other in boxes[i + 1 :])
        for line in axes.lines:
            points = axes.transData.transform(line.get_xydata())
            assert not box.padded(-1).count_contains(points)


def test_lines_take_their_colours_and_differ_without_them():
    series = {str(i): [i, i] for i in range(5)}
    lines = plotting.lines([0, 1], series, **LABELS).axes[0].lines
    assert len({str(line._dash_pattern) for line in lines}) == 5
    colours = (plotting.ORANGE, plotting.BLACK)
    series = {"a": [1.0, 2.0], "b": [2.0, 3.0]}
    fig = plotting.lines([0, 1], series, **LABELS, from_zero=True, colours=colours)
    assert tuple(line.get_color() for line in fig.axes[0].lines) == colours
    assert fig.axes[0].get_ylim()[0] == 0


def test_curves_draw_one_column_and_skip_rows_without_it():
    table = [{"step": 1, "reward": 0.5}, {"step": 2}, {"step": 3, "reward": 0.7}]
    fig = plotting.curves({"GRPO": table}, "reward", title="T", ylabel="reward")
    (line,) = fig.axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 0.5], [3, 0.7]])
    assert texts(fig) == {"GRPO"}
    with pytest.raises(KeyError, match="has no 'step' and 'loss'.*reward"):
        plotting.curves({"GRPO": table}, "loss", title="T", ylabel="loss")


@QUICK
@given(
    values=st.lists(st.floats(-5, 5), min_size=1, max_size=30), window=st.integers(2, 9)
)
def test_smoothing_is_a_trailing_mean(values, window):
    table = [{"step": i, "y": value} for i, value in enumerate(values)]
    fig = plotting.curves({"a": table}, "y", title="T", ylabel="y", smooth=window)
    raw, drawn = (line.get_ydata() for line in fig.axes[0].lines)
    expected = [
        np.mean(values[max(0, i + 1 - window) : i + 1]) for i in range(len(values))
    ]
    np.testing.assert_allclose(drawn, expected, atol=1e-9)
    np.testing.assert_array_equal(raw, values)


@pytest.mark.parametrize("low, high", [(-0.7, -0.3), (-0.2, 0.9), (0, 0)])
def test_bars_end_at_the_value_inside_the_picture(low, high):
    value = (low + high) / 2
    values = {"a": (value, low, high), "b": (0.05, 0.05, 0.05)}
    axes = plotting.bars(values, title="T", xlabel="x").axes[0]
    assert axes.patches[0].get_width() == pytest.approx(100 * value)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [100 * low, 100 * high])
    left, right = axes.get_xlim()
    assert left <= low * 100 and max(0, high * 100) < right
    assert all(left <= text.get_position()[0] < right for text in axes.texts)
    bottom, top = axes.get_ylim()
    assert bottom > top, "the first entry is on top"


def test_a_peak_inside_of_another_one_is_named_where_no_line_crosses_the_name():
    x = np.linspace(-6, 6, 241)

    def peak(centre, width):
        return np.exp(-(((x - centre) / width) ** 2))

    tall, two = 2 * peak(-2, 0.85), peak(-2, 0.85) + 0.5 * peak(2.5, 0.85)
    series = {"two peaks": two, "broad": 0.25 * peak(-0.2, 3.4), "tall": tall}
    fig = plotting.densities(x, series, title="T", xlabel="x")
    at = {text.get_text(): text.xy for text in fig.axes[0].texts}
    assert at["two peaks"] == (pytest.approx(2.5), pytest.approx(0.5))
    assert at["tall"] == (pytest.approx(-2), pytest.approx(2))
    boxes, lines = boxes_of_labels(fig), fig.axes[0].lines
    paths = [line.get_path().transformed(line.get_transform()) for line in lines]
    for box in boxes:
        assert not any(path.intersects_bbox(box, filled=False) for path in paths)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=9))
def test_merged_times_are_those_at_which_something_ran(lane):
    busy, shown = np.zeros(60, bool), np.zeros(60, int)
    for start, length in lane:
        busy[start : start + length] = True
    for start, length in plotting.merged(lane):
        shown[start : start + length] += 1
    assert (shown == busy).all()


def test_a_timeline_begins_with_the_first_run_and_keeps_the_lanes_order():
    lanes = {"update": [(7.5, 2.0)], "rollout": [(5.0, 1.0), (5.5, 1.0)], "rest": []}
    (axes,) = plotting.timeline(lanes, title="Updates wait").axes
    assert [text.get_text() for text in axes.get_yticklabels()] == list(lanes)
    spans = [
        [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in bars.get_paths()]
        for bars in axes.collections
    ]
    assert spans == [[(2.5, 4.5)], [(0.0, 1.5)], []]
    with pytest.raises(ValueError, match="No lane"):
        plotting.timeline({"update": []}, title="Nothing")
