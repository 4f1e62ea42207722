"""Lanes of what ran when show as much time as ran, however it overlaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.plots import timeline

RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=9)


@given(RUNS)
def test_merged_times_are_those_at_which_something_ran(lane):
    busy = np.zeros(60, bool)
    for start, length in lane:
        busy[start : start + length] = True
    found = timeline.merged(lane)
    shown = np.zeros(60, int)
    for start, length in found:
        shown[start : start + length] += 1
    assert (shown == busy).all()
    ends = [start + length for start, length in found]
    assert all(a < b for a, (b, _) in zip(ends, found[1:], strict=False))


def test_time_begins_with_the_first_run_and_lanes_stand_in_order():
    lanes = {"update": [(7.5, 2.0)], "rollout": [(5.0, 1.0), (5.5, 1.0)], "rest": []}
    fig = timeline.timeline(lanes, title="Updates wait")
    (axes,) = fig.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == list(lanes)
    boxes = [bars.get_paths() for bars in axes.collections]
    spans = [
        [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in b] for b in boxes
    ]
    assert spans == [[(2.5, 4.5)], [(0.0, 1.5)], []]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first lane is on top


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="No lane"):
        timeline.timeline({"update": []}, title="Nothing")
