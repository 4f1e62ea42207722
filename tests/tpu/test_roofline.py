"""Rooflines: counts by brute force, roofs by hand, and a clock that waits."""

import time

import jax.numpy as jnp
import pytest

from helpers.plots import roofline_plot
from helpers.tpu import roofline
from helpers.tpu.roofline import Machine


def test_flops_and_bytes_are_those_of_the_triple_loop():
    B, D, F = 3, 5, 2
    flops, touched = 0, set()
    for b in range(B):
        for f in range(F):
            touched.add(("out", b, f))
            for d in range(D):
                flops += 2
                touched |= {("x", b, d), ("w", d, f)}
    assert roofline.matmul(B, D, F, size=4) == (flops, 4 * len(touched))


def test_the_roof_is_the_lower_of_the_two_limits():
    machine = Machine("toy", flops=100.0, bandwidth=5.0)
    assert machine.ridge == 20
    assert [machine.reach(x) for x in (1, 19, 20, 21, 1000)] == [5, 95, 100, 100, 100]


def test_the_ridge_of_v5e_is_the_published_ratio():
    assert roofline.published("v5e").ridge == pytest.approx(197e12 / 819e9)
    with pytest.raises(KeyError):
        roofline.published("v9")


def test_the_best_of_several_calls_counts_and_the_first_does_not():
    waits, calls = [0.0, 0.3, 0.05, 0.2], []

    def call():
        time.sleep(waits[len(calls)])
        calls.append(1)
        return jnp.zeros(1)

    assert 0.05 <= roofline.best_seconds(call, tries=3) < 0.2
    assert len(calls) == 4


def test_a_measured_machine_does_something_and_not_the_impossible():
    machine = roofline.measure(jnp.float32, side=256, numbers=2**20)
    assert 1e7 < machine.flops < 1e15 and 1e7 < machine.bandwidth < 1e14
    assert machine.name.startswith("this machine (")


def test_the_figure_draws_roofs_ridges_and_points():
    toy, other = Machine("toy", 1e9, 1e8), Machine("other", 1e12, 1e10)
    fig = roofline_plot.figure([toy, other], [("1 row", 0.5, 4e7)], title="T")
    axes = fig.axes[0]
    roofs = [line.get_xydata()[1] for line in axes.lines if len(line.get_xdata()) == 3]
    assert [tuple(ridge) for ridge in roofs] == [(10, 1e9), (100, 1e12)]
    assert (0.5, 4e7) in [tuple(line.get_xydata()[0]) for line in axes.lines]
    words = " ".join(text.get_text() for text in axes.texts)
    assert "toy\nridge at 10" in words and "1 row" in words
    assert axes.get_ylim()[0] < 4e7 and axes.get_ylim()[1] > 1e12
