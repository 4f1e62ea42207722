"""The model of many workers against what can be worked out by hand."""

import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if not os.environ.get("COURSE_CI"):  # there it must be installed
    pytest.importorskip("simpy", reason="simpy is not installed: pip install simpy")

from helpers.scale.simulation import Times, simulate  # noqa: E402

seconds = st.floats(0.1, 20)


@settings(deadline=None, max_examples=25)
@given(seconds, seconds, st.integers(1, 6), st.integers(1, 6))
def test_the_synchronous_loop_waits_for_its_rounds_and_then_updates(s, u, workers, k):
    prediction = simulate(Times(s, u), workers, pieces=k, updates=30)
    by_hand = 1 / (math.ceil(k / workers) * s + u)
    assert prediction.updates == pytest.approx(by_hand, rel=1e-6)
    assert prediction.lost == 0


@settings(deadline=None, max_examples=25)
@given(seconds, seconds, st.integers(1, 5))
def test_running_ahead_is_as_fast_as_the_slower_half(s, u, workers):
    """Whoever samples is never waited for, where the limit leaves all of them work."""
    prediction = simulate(Times(s, u), workers, limit=2 * workers + 2, updates=200)
    assert prediction.updates == pytest.approx(min(1 / u, workers / s), rel=0.05)


def test_a_preempted_worker_answers_as_renewal_theory_says():
    """A piece that a Poisson process interrupts, from the start each time.

    E = (1/rate + restart)(exp(rate · s) - 1), then the update.
    """
    s, u, rate, restart = 50.0, 0.5, 60.0, 30.0
    prediction = simulate(
        Times(s, u, restart=restart), 1, preemptions=rate, updates=4000
    )
    per_second = rate / 3600
    expected = (1 / per_second + restart) * math.expm1(per_second * s) + u
    assert 1 / prediction.updates == pytest.approx(expected, rel=0.05)
    assert prediction.lost == pytest.approx(math.expm1(per_second * s), rel=0.1)


def test_uneven_pieces_make_the_synchronous_loop_wait_for_the_slowest():
    """Mean of the largest of k exponential times: the harmonic sum (spread 1)."""
    k, s = 8, 4.0
    prediction = simulate(Times(s, 1e-3, spread=1.0), k, pieces=k, updates=3000)
    slowest = s * sum(1 / i for i in range(1, k + 1))
    assert 1 / prediction.updates == pytest.approx(slowest, rel=0.04)
    ahead = simulate(Times(s, 1e-3, spread=1.0), k, pieces=k, limit=4, updates=3000)
    assert ahead.updates > 1.8 * prediction.updates


def test_who_waits_for_work_is_preempted_as_well():
    """During a long update its worker goes and comes, whether it is needed or not.

    At the end of the update it is away with probability away / (up + away), and then
    for half of that time on average.
    """
    update, up, away = 1000.0, 100.0, 500.0
    prediction = simulate(
        Times(0.1, update, restart=away), 1, preemptions=3600 / up, updates=4000
    )
    waited = away / (up + away) * away / 2
    assert 1 / prediction.updates == pytest.approx(update + waited, rel=0.05)
