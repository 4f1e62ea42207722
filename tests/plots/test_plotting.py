"""Figures say what they should: data drawn, labels apart, white canvas, alt text."""

import base64
import html
import io
import re

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from helpers.course import walk_figure
from helpers.plots import markup, plotting

LABELS = {"title": "A finding", "xlabel": "x, unit", "ylabel": "y, unit"}
STAGES = ("base", "sft", "grpo", "gspo", "student_start", "student_labels", "student")
ROWS = [
    {
        "stage": stage,
        "params": 410_000,
        "greedy": 0.1 * i + 0.2,
        "low": 0.1 * i + 0.16,
        "high": 0.1 * i + 0.24,
        "pass8": 0.95,
        "n": 512,
        "seed": 0,
    }
    for i, stage in enumerate(STAGES)
]


@pytest.fixture
def shown(monkeypatch):
    """The HTML that was put into the notebook."""
    outputs = []
    monkeypatch.setattr(markup, "display", outputs.append)
    return outputs


def texts(fig):
    return {text.get_text() for text in fig.axes[0].texts}


def boxes_of_labels(fig):
    FigureCanvasAgg(fig).draw()
    return [text.get_window_extent() for text in fig.axes[0].texts]


def pixels(fig):
    return matplotlib.image.imread(io.BytesIO(plotting.png(fig)))


def test_show_emits_an_image_with_escaped_alt_text(shown):
    alt = 'Reward "rises" & stays < 1'
    plotting.show(plotting.lines([0, 1], {"a": [0, 1]}, **LABELS), alt)
    (output,) = shown
    tag = re.fullmatch(r'<img alt="([^"]*)" width="(\d+)" [^<>]*>', output)
    assert html.unescape(tag.group(1)) == alt
    assert tag.group(2) == "672"
    assert 'src="data:image/png;base64,iVBOR' in output


def test_show_refuses_a_figure_without_alt_text(shown):
    fig = plotting.lines([0, 1], {"a": [0, 1]}, **LABELS)
    with pytest.raises(ValueError, match="alt text"):
        plotting.show(fig, " ")
    assert not shown


def test_a_picture_of_a_file_is_shown_as_it_is_and_with_alt_text(shown, tmp_path):
    file = tmp_path / "seen.png"
    file.write_bytes(data := b"\x89PNG any bytes")
    plotting.show_file(file, "Bars & a line", width=300)
    (output,) = shown
    tag = re.fullmatch(r'<img alt="([^"]*)" width="300" [^<>]*base64,(\S+)">', output)
    assert tag[1] == "Bars &amp; a line" and base64.b64decode(tag[2]) == data
    with pytest.raises(ValueError, match="alt text"):
        plotting.show_file(file, "")


@pytest.mark.parametrize(
    "fig",
    [
        plotting.lines([0, 1], {"a": [0, 1]}, **LABELS),
        plotting.bars({"a": (0.5, 0.4, 0.6)}, title="T", xlabel="x"),
        walk_figure.walk(ROWS),
    ],
    ids=["lines", "bars", "walk"],
)
def test_canvas_is_opaque_white_and_axes_are_named(fig):
    image = pixels(fig)
    assert image.shape[2] == 3 or image[..., 3].min() == 1.0
    assert (image[0, :, :3] == 1).all() and (image[:, 0, :3] == 1).all()
    assert (image < 0.9).any(), "something is drawn"
    axes = fig.axes[0]
    assert axes.get_title("left") and (axes.get_xlabel() or axes.get_ylabel())


def test_nothing_is_cut_off_at_the_edge():
    name = "a run with quite a long name"
    fig = plotting.lines([0, 1], {name: [0, 1], "b": [1, 1]}, **LABELS)
    for box in boxes_of_labels(fig):
        assert 0 <= box.x0 and box.x1 <= fig.bbox.x1
        assert 0 <= box.y0 and box.y1 <= fig.bbox.y1


@settings(deadline=None, max_examples=25)
@given(ends=st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_labels_at_the_ends_never_overlap(ends):
    series = {f"run {i}": [0.5, end] for i, end in enumerate(ends)}
    fig = plotting.lines([0, 1], series, **LABELS)
    boxes = sorted(boxes_of_labels(fig), key=lambda box: box.y0)
    for lower, upper in zip(boxes, boxes[1:], strict=False):
        assert upper.y0 >= lower.y1 - 1, "labels overlap by more than a pixel"


def test_an_axis_from_zero_keeps_its_names_apart():
    series = {"a": [100, 93.3], "b": [100, 95.2]}
    axes = plotting.lines([0, 1], series, **LABELS, from_zero=True).axes[0]
    low, high = axes.get_ylim()
    assert low == 0 and high > 100
    heights = sorted(text.xy[1] for text in axes.texts)
    assert heights[1] - heights[0] >= 0.05 * (high - low)


@given(heights=st.lists(st.floats(0, 1), min_size=2, max_size=5))
@settings(deadline=None, max_examples=25)
def test_names_are_moved_up_as_far_as_down(heights):
    """They stand apart in the middle of what they name, as far as the axis allows."""
    series = {str(i): [0.5, height] for i, height in enumerate([0.5, *heights])}
    axes = plotting.lines([0, 1], series, **LABELS).axes[0]
    low, high = axes.get_ylim()
    names = sorted(
        (text.xy[1], float(series[text.get_text()][1])) for text in axes.texts
    )
    gap = 0.06 * (high - low)
    moved = np.array([at - end for at, end in names])
    together = np.diff([at for at, _ in names]) < gap * 1.001
    for group in np.split(moved, np.flatnonzero(~together) + 1):
        edge = low + 1e-9 >= names[0][0] or names[-1][0] >= high - 1e-9
        assert edge or abs(group.mean()) < 1e-9


def test_four_lines_that_end_close_together_have_no_name_far_above_its_line():
    ends = {"first": 10.9, "second": 11.8, "third": 11.9, "fourth": 12.6}
    series = {name: [0, end] for name, end in ends.items()}
    axes = plotting.lines([0, 1], series, **LABELS, from_zero=True).axes[0]
    gap = 0.06 * np.ptp(axes.get_ylim())
    for text in axes.texts:
        assert abs(text.xy[1] - ends[text.get_text()]) < 0.6 * gap


def test_lines_take_the_colours_they_are_given():
    colours = (plotting.ORANGE, plotting.BLACK)
    table = {"a": [{"step": 0, "y": 1}], "b": [{"step": 0, "y": 2}]}
    series = {"a": [0.0, 1.0], "b": [1.0, 2.0]}
    words = {"title": "T", "colours": colours}
    for fig in (
        plotting.lines([0, 1], series, xlabel="x", ylabel="y", **words),
        plotting.densities([0, 1], series, xlabel="x", **words),
        plotting.curves(table, "y", ylabel="y", **words),
    ):
        assert tuple(line.get_color() for line in fig.axes[0].lines) == colours
        names = {text.get_text(): text.get_color() for text in fig.axes[0].texts}
        assert names == dict(zip("ab", colours, strict=True))


def test_a_shorter_line_is_named_where_it_stops():
    table = [{"step": i, "loss": 0.4} for i in range(37)]
    runs = {"mixture": table, "all worked": table[:13]}
    fig = plotting.curves(runs, "loss", title="T", ylabel="loss")
    at = {text.get_text(): text.xy for text in fig.axes[0].texts}
    assert at["mixture"] == (36, 0.4) and at["all worked"][0] == 12


@settings(deadline=None, max_examples=25)
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


def test_line_style_repeats_the_colour():
    series = {str(i): [i, i] for i in range(5)}
    lines = plotting.lines([0, 1], series, **LABELS).axes[0].lines
    assert len({line.get_color() for line in lines}) == 5
    assert len({str(line._dash_pattern) for line in lines}) == 5


def test_curves_draw_one_column_and_skip_rows_without_it():
    table = [{"step": 1, "reward": 0.5}, {"step": 2}, {"step": 3, "reward": 0.7}]
    fig = plotting.curves({"GRPO": table}, "reward", title="T", ylabel="reward")
    (line,) = fig.axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 0.5], [3, 0.7]])
    assert texts(fig) == {"GRPO"}
    with pytest.raises(KeyError, match="no rows with 'step' and 'loss'.*reward"):
        plotting.curves({"GRPO": table}, "loss", title="T", ylabel="loss")


@given(
    values=st.lists(st.floats(-5, 5), min_size=1, max_size=30), window=st.integers(2, 9)
)
@settings(deadline=None, max_examples=25)
def test_smoothing_is_a_trailing_mean(values, window):
    table = [{"step": i, "reward": value} for i, value in enumerate(values)]
    fig = plotting.curves(
        {"a": table}, "reward", title="T", ylabel="reward", smooth=window
    )
    raw, drawn = (line.get_ydata() for line in fig.axes[0].lines)
    expected = [
        np.mean(values[max(0, i + 1 - window) : i + 1]) for i in range(len(values))
    ]
    np.testing.assert_allclose(drawn, expected, atol=1e-9)
    np.testing.assert_array_equal(raw, values)
    assert f"mean of {window}" in fig.axes[0].get_ylabel()


def test_names_of_smoothed_lines_stand_apart_however_far_the_raw_values_reach():
    noisy = [
        [{"step": i, "reward": sign * (-1) ** i * 40 + 50} for i in range(20)]
        for sign in (1, -1)
    ]
    runs = dict(zip(("ours", "theirs"), noisy, strict=True))
    fig = plotting.curves(runs, "reward", title="T", ylabel="reward", smooth=10)
    low, high = fig.axes[0].get_ylim()
    first, second = sorted(text.xy[1] for text in fig.axes[0].texts)
    assert second - first > 0.05 * (high - low)


def test_bars_end_at_the_value_with_the_interval_around_it():
    values = {"1 step": (0.9, 0.8, 0.95), "2 steps": (0.5, 0.4, 0.6)}
    axes = plotting.bars(values, title="T", xlabel="%").axes[0]
    assert [patch.get_width() for patch in axes.patches] == [90, 50]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [80, 95])
    assert texts(axes.figure) == {"90.0%", "50.0%"}
    bottom, top = axes.get_ylim()
    assert bottom > top, "first entry on top"


def test_bars_show_negative_values():
    axes = plotting.bars(
        {"a": (-0.5, -0.7, -0.3)}, title="T", xlabel="nats", percent=False
    ).axes[0]
    assert axes.get_xlim()[0] <= -0.7
    assert texts(axes.figure) == {"-0.5"}


def test_standing_bars_are_as_high_as_their_values_under_their_labels():
    values = {"Mon": 402.0, "Tue": 0.0, "Wed": 804}
    labels = ["402", "", "the most"]
    axes = plotting.standing_bars(values, labels, title="T", ylabel="kcal").axes[0]
    assert [bar.get_height() for bar in axes.patches] == [402, 0, 804]
    assert [text.get_text() for text in axes.texts] == labels
    assert [text.get_position() for text in axes.texts] == [(0, 402), (1, 0), (2, 804)]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(values)
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 804
    plotting.standing_bars({"a": 0.0}, [""], title="T", ylabel="y")
    with pytest.raises(ValueError):
        plotting.standing_bars(values, ["one"], title="T", ylabel="y")


def test_densities_are_labelled_at_their_peaks():
    x = np.linspace(-3, 3, 61)
    series = {"teacher": np.exp(-((x + 1) ** 2)), "student": np.exp(-((x - 1) ** 2))}
    fig = plotting.densities(x, series, title="T", xlabel="x")
    at = {text.get_text(): text.xy[0] for text in fig.axes[0].texts}
    assert at["teacher"] == pytest.approx(-1) and at["student"] == pytest.approx(1)


def test_a_peak_inside_of_another_one_is_labelled_where_no_line_crosses_the_name():
    x = np.linspace(-6, 6, 241)

    def peak(centre, width):
        return np.exp(-(((x - centre) / width) ** 2))

    tall, two = 2 * peak(-2, 0.85), peak(-2, 0.85) + 0.5 * peak(2.5, 0.85)
    series = {"two peaks": two, "broad": 0.25 * peak(-0.2, 3.4), "tall": tall}
    fig = plotting.densities(x, series, title="T", xlabel="x")
    at = {text.get_text(): text.xy for text in fig.axes[0].texts}
    assert at["two peaks"] == (pytest.approx(2.5), pytest.approx(0.5))
    assert -0.2 < at["broad"][0] < 1, "beside its peak, where the tall line has sunk"
    assert at["tall"] == (pytest.approx(-2), pytest.approx(2))
    fig.canvas.draw()
    lines = [
        line.get_path().transformed(line.get_transform()) for line in fig.axes[0].lines
    ]
    for text in fig.axes[0].texts:
        box = text.get_window_extent()
        assert not any(line.intersects_bbox(box, filled=False) for line in lines)


def test_walk_draws_every_stage_once_with_its_figures():
    food = {**ROWS[0], "stage": "food_sft", "greedy": 0.45, "n": 360}
    fig = walk_figure.walk([food, *ROWS, {**ROWS[0], "seed": 1, "greedy": 0.99}])
    axes = fig.axes[0]
    assert len(axes.patches) == len(ROWS) + 1
    said = {f"{100 * row['greedy']:.0f}" for row in [*ROWS, food]}
    assert texts(fig) == said | {"maths, n = 512", "food, n = 360"}
    at = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    assert at[-1] - at[-2] > at[1] - at[0], "the worlds stand apart, food last"
    assert axes.patches[-1].get_height() == pytest.approx(45)
    names = " ".join(label.get_text() for label in axes.get_xticklabels())
    assert "SFT" in names and "0.41 M" in names
    assert axes.get_title("left").startswith("From 20% to 80%")


def test_answers_are_escaped_and_rounded(shown):
    rows = [{"completion": "a < b\n#### 3", "reward": 0.123456}]
    markup.show_answers(rows, ["completion", "reward"])
    assert "a &lt; b\n#### 3" in shown[0] and ">0.123<" in shown[0]


def test_tokens_say_their_value_without_colour(shown):
    markup.show_tokens(["<b>", " x\n"], [0.5, -1.0], title="Advantages")
    assert "&lt;b&gt;" in shown[0] and "␣x↵" in shown[0]
    assert "+0.50" in shown[0] and "-1.00" in shown[0]
    colours = re.findall(r"rgb\((\d+),(\d+),(\d+)\)", shown[0])
    assert colours[0][2] > colours[0][0] and int(colours[1][0]) > int(colours[1][2])
    with pytest.raises(ValueError, match="2 tokens, but 1 values"):
        markup.show_tokens(["a", "b"], [1.0], title="T")


def test_tokens_of_a_mask_say_0_and_1(shown):
    markup.show_tokens(["a", "b"], [0, 1], title="T")
    assert "<small>0<" in shown[0] and "<small>1<" in shown[0]


def test_tokens_without_any_value_are_white(shown):
    markup.show_tokens(["a"], [0.0], title="T")
    assert "rgb(255,255,255)" in shown[0]


def test_bars_stay_inside_the_picture_whatever_their_sign():
    for low, high in (-0.7, -0.3), (-0.2, 0.9), (0.1, 0.3), (0.0, 0.0):
        for percent in (True, False):
            values = {"a": ((low + high) / 2, low, high)}
            fig = plotting.bars(values, title="T", xlabel="x", percent=percent)
            left, right = fig.axes[0].get_xlim()
            scale = 100 if percent else 1
            assert left <= low * scale and max(0, high * scale) < right
            assert left <= fig.axes[0].texts[0].get_position()[0] < right
