"""How far a measured share can be trusted: unbiased pass@k, intervals, comparisons.

A share of n problems is known to about ±1/√n: 62% of 500 is anything from 58% to 66%.
So every figure comes with its interval, and two models are compared problem by problem.
"""

import math
from dataclasses import dataclass

import numpy as np

DRAWN_AT_ONCE = 2**22  # numbers, 32 MiB
DIGITS = 12  # of the largest score; what differs later is float64's rounding


def pass_at_k(n, c, k):
    """The chance that k answers hold a right one, without bias, from n of which c are.

    1 - C(n-c, k) / C(n, k): of all ways to pick k of the n, the share with a right one.

    Args:
      n: answers sampled.
      c: right ones among them.
      k: answers one may hand in, at most n.

    Returns:
      A fraction. Source: 2107.03374, eq. 1.

    Raises:
      ValueError: not 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(
            f"pass@{k} of {n} samples, {c} of them right: sample at least k answers."
        )
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def wilson(successes, n, level=0.95):
    """The interval that probably holds the true share, from successes in n trials.

    Unlike share ± 1.96·√(share (1 - share) / n) it stays inside 0 and 1 and does not
    collapse when all or none succeed.

    Args:
      successes: how many succeeded.
      n: how many were tried, at least 1.
      level: how probably, a fraction.

    Returns:
      (low, high), fractions. Source: Wilson (1927), as SciPy has it.

    Raises:
      ValueError: not 0 <= successes <= n with n at least 1, or not whole numbers.
    """
    whole = successes == int(successes) and n == int(n)
    if not (whole and n >= 1 and 0 <= successes <= n):
        raise ValueError(f"{successes} successes of {n} trials have no interval.")
    interval = _binomial_test(int(successes), int(n)).proportion_ci(level, "wilson")
    return float(interval.low), float(interval.high)


def mean_interval(scores, *, resamples=10_000, seed=0):
    """The 95% interval of a mean score: Wilson's of 0s and 1s, else by bootstrap.

    Args:
      scores: one for each problem.
      resamples, seed: as for `compare`.

    Returns:
      (low, high). Where all scores are the same, and neither 0 nor 1, nothing is known
      of how far others may be: both are the mean.

    Raises:
      ValueError: there are none, or one is no finite number.
    """
    scores_N = np.asarray(scores, float)
    if not len(scores_N) or not np.isfinite(scores_N).all():
        raise ValueError(f"{len(scores_N)} scores, all of which have to be numbers.")
    if np.isin(scores_N, (0, 1)).all():
        return wilson(int(scores_N.sum()), len(scores_N))
    return _bootstrap(scores_N, resamples, seed)


def _bootstrap(x_N, resamples, seed):
    """The middle 95% of the means of n that are drawn of x again and again."""
    # Drawing n problems with replacement = drawing how often each value comes up.
    values, counts = np.unique(x_N, return_counts=True)
    dice, at_once = np.random.default_rng(seed), max(1, DRAWN_AT_ONCE // len(values))
    means: list[float] = []
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn = dice.multinomial(len(x_N), counts / len(x_N), size=size)
        means += (drawn @ values / len(x_N)).tolist()
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def _binomial_test(successes, n):
    """SciPy's, imported when it is needed: that takes longer than importing JAX."""
    from scipy.stats import binomtest

    return binomtest(successes, n)


@dataclass(frozen=True)
class Comparison:
    """A second model against a first, on the same problems; fractions of 1.

    Attributes:
      n: problems.
      difference: the mean score after, minus that before.
      low, high: its 95% interval, by bootstrap over the problems. Where all change by
        the same, a bootstrap knows of no other change; the interval then has room for
        as many that do not change as Wilson's has (and that do, where none did, by 1
        or the largest score there is).
      gained, lost: problems with a higher and with a lower score than before.
      p: the chance of a mean change at least as far from 0 if neither model were
        better, each problem's change as likely down as up: McNemar's exact test where
        all that change do so by the same, else drawn.
    """

    n: int
    difference: float
    low: float
    high: float
    gained: int
    lost: int
    p: float

    def __str__(self):
        verdict = "more than chance" if self.p < 0.05 else "could be chance"
        interval = f"95% interval {self.low:+.1%} to {self.high:+.1%}, n = {self.n}"
        return (
            f"{self.difference:+.1%} ({interval}): {self.gained} gained, {self.lost} "
            f"lost, p = {self.p:.2g}: {verdict}"
        )


def compare(before, after, *, resamples=10_000, seed=0):
    """Whether a second model is better than a first, judged problem by problem.

    Problems that both solve, or neither, say nothing about which is better; comparing
    two separate intervals does not know that.

    Args:
      before, after: the score of each problem, in the same order: 0 or 1, or a share.
        Twelve digits of the largest count: 0.3 is not less than 0.1 + 0.2.
      resamples: draws of the bootstrap (Efron, 1979).
      seed: decides these draws.

    Returns:
      A Comparison.

    Raises:
      ValueError: not the same number of problems, or none, or a score that is no
        finite number.
    """
    if len(before) != len(after) or not len(before):
        raise ValueError(
            f"{len(before)} problems before and {len(after)} after: compare two models "
            "on the same problems."
        )
    scores = np.asarray(before, float), np.asarray(after, float)
    change_N = _changes(*scores)
    n = len(change_N)
    low, high = _bootstrap(change_N, resamples, seed)
    if (change_N == change_N[0]).all():
        unit = max(1.0, float(np.abs(scores).max()))
        low, high = _of_one_change(float(change_N[0]), n, unit)
    gained, lost = int((change_N > 0).sum()), int((change_N < 0).sum())
    p = _chance(change_N[change_N != 0], gained, resamples, seed)
    return Comparison(n, float(change_N.mean()), low, high, gained, lost, p)


def _changes(before_N, after_N):
    """after - before, equal where they differ by rounding only."""
    largest = np.abs([before_N, after_N]).max()
    if not np.isfinite(largest):
        raise ValueError(
            "A score is not a finite number, which is neither better nor worse than "
            "another: leave its problem out of both, or score it 0."
        )
    decimals = DIGITS - math.ceil(math.log10(largest)) if largest else 0
    return np.round(after_N - before_N, min(decimals, 300)) + 0.0  # no -0.0


def _of_one_change(change, n, unit):
    """(low, high) of the mean change, where all n are the same.

    unit: how far a score that did not change might have.
    """
    surely, hidden = wilson(n, n)[0], wilson(0, n)[1] * unit
    if not change:
        return -hidden, hidden
    return min(change, surely * change), max(change, surely * change)


def _chance(changes, gained, resamples, seed):
    """How probably a mean as far from 0 comes of signs that are thrown by a coin."""
    sizes, counts = np.unique(np.abs(changes), return_counts=True)
    if not len(sizes):
        return 1.0
    if len(sizes) == 1:
        return float(_binomial_test(gained, len(changes)).pvalue)
    dice = np.random.default_rng(seed)
    ups = dice.binomial(counts, 0.5, size=(resamples, len(counts)))
    thrown, observed = np.abs((2 * ups - counts) @ sizes), abs(changes.sum())
    as_far = (thrown >= observed * (1 - 1e-12)).sum()
    return float((1 + as_far) / (1 + resamples))
