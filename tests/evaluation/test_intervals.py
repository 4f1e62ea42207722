"""Error bars against brute force, published tables, and exact coverage."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.evaluation import intervals
from helpers.evaluation.intervals import compare, mean_interval, pass_at_k, wilson


def test_pass_at_k_is_the_share_of_subsets_that_hold_a_right_answer():
    for n in range(1, 8):
        for c, k in itertools.product(range(n + 1), range(1, n + 1)):
            right = [True] * c + [False] * (n - c)
            subsets = list(itertools.combinations(right, k))
            brute = sum(map(any, subsets)) / len(subsets)
            assert pass_at_k(n, c, k) == pytest.approx(brute, abs=1e-12)


def test_best_of_n_is_the_mean_over_all_choices_of_n_answers():
    scores, values = np.random.default_rng(0).normal(size=(2, 6))
    for n in range(1, 7):
        subsets = itertools.combinations(range(6), n)
        chosen = [values[max(subset, key=scores.__getitem__)] for subset in subsets]
        assert intervals.best_of_n(scores, values, n) == pytest.approx(np.mean(chosen))


@given(st.floats(0, 1), st.integers(1, 6), st.integers(0, 6))
def test_pass_at_k_is_unbiased(p, k, more):
    """Its mean over all outcomes of n tries is the chance that one of k succeeds."""
    n = k + more
    mean = sum(
        math.comb(n, c) * p**c * (1 - p) ** (n - c) * pass_at_k(n, c, k)
        for c in range(n + 1)
    )
    assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-9)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.68, 0.95, 0.99]))
def test_wilson_ends_are_the_shares_from_which_the_count_is_z_deviations_off(
    n, x, level
):
    successes, z = round(n * x), NormalDist().inv_cdf((1 + level) / 2)
    low, high = wilson(successes, n, level)
    assert 0 <= low <= successes / n <= high <= 1
    for end in (low, high):
        deviation = math.sqrt(end * (1 - end) / n)
        assert abs(successes / n - end) == pytest.approx(z * deviation, abs=1e-9)


def test_wilson_holds_the_true_share_about_95_times_in_100():
    n, shares = 60, np.linspace(0.02, 0.98, 49)
    ends = [wilson(c, n) for c in range(n + 1)]
    covered = [
        sum(
            math.comb(n, c) * p**c * (1 - p) ** (n - c)
            for c, (low, high) in enumerate(ends)
            if low <= p <= high
        )
        for p in shares
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.01)
    assert min(covered) > 0.88


def outcomes(both, gained, lost, neither):
    before = [1] * both + [0] * gained + [1] * lost + [0] * neither
    after = [1] * both + [1] * gained + [0] * lost + [0] * neither
    return before, after


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (5, 5), (9, 2), (2, 9), (0, 6)])
def test_the_p_value_counts_all_splits_as_uneven_as_the_one_seen(gained, lost):
    result = compare(*outcomes(3, gained, lost, 4))
    flips = itertools.product([0, 1], repeat=gained + lost)
    uneven = [abs(2 * sum(f) - len(f)) >= abs(gained - lost) for f in flips]
    assert result.p == pytest.approx(np.mean(uneven))
    assert (result.gained, result.lost) == (gained, lost)


def test_the_interval_of_the_difference_is_that_of_its_normal_approximation():
    both, gained, lost, neither = 300, 60, 30, 110
    result = compare(*outcomes(both, gained, lost, neither))
    n = both + gained + lost + neither
    difference = (gained - lost) / n
    deviation = math.sqrt((gained + lost) / n - difference**2) / math.sqrt(n)
    assert result.n == n and result.difference == pytest.approx(difference)
    assert result.low == pytest.approx(difference - 1.96 * deviation, abs=0.003)
    assert result.high == pytest.approx(difference + 1.96 * deviation, abs=0.003)


def test_the_same_answers_are_no_improvement():
    result = compare([1, 0, 1], [1, 0, 1])
    assert (result.difference, result.p) == (0, 1)
    assert result.high == -result.low == wilson(0, 3)[1], "three problems say little"
    assert "could be chance" in str(result)


def test_an_interval_has_a_width_where_all_change_alike():
    won = compare([0] * 3, [1] * 3)
    assert (won.difference, won.low, won.high) == (1, wilson(3, 3)[0], 1)
    lost = compare([1.0] * 5, [0.3] * 5)
    assert lost.low == pytest.approx(-0.7)
    assert lost.high == pytest.approx(-0.7 * wilson(5, 5)[0])


def test_the_interval_of_a_mean_is_that_of_a_share_or_of_what_is_drawn_again():
    assert mean_interval([1, 0, 0, 0]) == wilson(1, 4)
    scores = np.random.default_rng(3).normal(5, 2, 400)
    low, high = mean_interval(scores)
    room = 1.96 * scores.std() / 400**0.5  # the mean's normal approximation
    np.testing.assert_allclose((low, high), scores.mean() + [-room, room], atol=0.02)
    assert mean_interval([0.5] * 16) == (0.5, 0.5)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=9))
def test_the_chance_is_that_of_all_signs(changes):
    """Against every way in which the coins may fall."""
    p_value = compare([0.0] * len(changes), changes).p
    sizes = [abs(change) for change in changes if change]
    falls = [
        abs(sum(s * x for s, x in zip(signs, sizes, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(sizes))
    ]
    exact = np.mean([fall >= abs(sum(changes)) - 1e-9 for fall in falls])
    assert p_value == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(("before", "after"), [([1], [1, 0]), ([], [])])
def test_other_problems_cannot_be_compared(before, after):
    with pytest.raises(ValueError, match="the same problems"):
        compare(before, after)


def test_what_only_rounding_tells_apart_is_the_same():
    """0.6 - 0.1 and 0.8 - 0.3 are two floats, and one change."""
    tenths = compare([0.1, 0.2, 0.3], [0.6, 0.7, 0.8])
    assert tenths.p == compare([0.125, 0.25, 0.25], [0.625, 0.75, 0.75]).p
    same = compare([0.1 + 0.2] * 30, [0.3] * 30)
    assert (same.gained, same.lost, same.p) == (0, 0, 1)
