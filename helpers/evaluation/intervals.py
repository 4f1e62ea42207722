"""How far a measured share can be trusted: unbiased pass@k, intervals, comparisons.

A share of n problems is known to about ±1/√n: 62% of 500 is anything from 58% to 66%.
So every figure comes with its interval, and two models are compared problem by problem.
"""

import math
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000  # draws of the bootstrap (Efron, 1979)
DIGITS = 12  # of a change; what differs later is float64's rounding


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


def best_of_n(scores, values, n):
    """The mean value of the best scored of n answers, without bias, from N of them.

    Of all ways to pick n of the N answers, the one with the i-th lowest score is the
    best of C(i-1, n-1).

    Args:
      scores: what chooses, one number per answer; of equal ones the last is chosen.
      values: what is hoped for, one number per answer.
      n: answers to choose from, at most N.

    Returns:
      A number. Source: WebGPT, 2112.09332, appendix I.
    """
    order = np.argsort(scores, kind="stable")
    chances = [math.comb(i, n - 1) for i in range(len(order))]
    return float(np.asarray(values)[order] @ chances / math.comb(len(order), n))


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
    if successes != int(successes):
        raise ValueError(f"{successes} successes: pass how many, not which share.")
    # SciPy is imported when it is needed: that takes longer than importing JAX.
    from scipy.stats import binomtest

    interval = binomtest(int(successes), n).proportion_ci(level, "wilson")
    return float(interval.low), float(interval.high)


def mean_interval(scores, seed=0):
    """The 95% interval of a mean score: Wilson's of 0s and 1s, else by bootstrap.

    Args:
      scores: one for each problem.
      seed: as for `compare`.

    Returns:
      (low, high). Where all scores are the same, and neither 0 nor 1, nothing is known
      of how far others may be: both are the mean.
    """
    scores_N = np.asarray(scores, float)
    if np.isin(scores_N, (0, 1)).all():
        return wilson(int(scores_N.sum()), len(scores_N))
    return _bootstrap(scores_N, seed)


def _bootstrap(x_N, seed):
    """The middle 95% of the means of n that are drawn of x again and again."""
    values, counts = np.unique(x_N, return_counts=True)
    dice, n = np.random.default_rng(seed), len(x_N)
    # Drawing n problems with replacement = drawing how often each value comes up; a
    # hundred draws at a time, which fit into memory.
    draws = range(RESAMPLES // 100)
    means = [dice.multinomial(n, counts / n, 100) @ values / n for _ in draws]
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


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


def compare(before, after, seed=0):
    """Whether a second model is better than a first, judged problem by problem.

    Problems that both solve, or neither, say nothing about which is better; comparing
    two separate intervals does not know that.

    Args:
      before, after: the score of each problem, in the same order: 0 or 1, or a share.
        Twelve decimals count: 0.3 is not less than 0.1 + 0.2.
      seed: decides the draws of the bootstrap.

    Returns:
      A Comparison.

    Raises:
      ValueError: not the same number of problems, or none.
    """
    if len(before) != len(after) or not len(before):
        raise ValueError(
            f"{len(before)} problems before and {len(after)} after: compare two models "
            "on the same problems."
        )
    scores = np.asarray([before, after], float)
    change_N = np.round(scores[1] - scores[0], DIGITS) + 0.0  # no -0.0
    n, mean = len(change_N), float(change_N.mean())
    low, high = _bootstrap(change_N, seed)
    if low == high:  # all changed alike, and a bootstrap knows of no other change
        unchanged = wilson(0, n)[1] * max(1.0, float(np.abs(scores).max()))
        ends = (mean, wilson(n, n)[0] * mean) if mean else (-unchanged, unchanged)
        low, high = sorted(ends)
    gained, lost = int((change_N > 0).sum()), int((change_N < 0).sum())
    p = _chance(change_N[change_N != 0], gained, seed)
    return Comparison(n, mean, low, high, gained, lost, p)


def _chance(changes, gained, seed):
    """How probably a mean as far from 0 comes of signs that are thrown by a coin."""
    from scipy.stats import binomtest

    sizes, counts = np.unique(np.abs(changes), return_counts=True)
    if not len(sizes):
        return 1.0
    if len(sizes) == 1:
        return float(binomtest(gained, len(changes)).pvalue)
    dice = np.random.default_rng(seed)
    ups = dice.binomial(counts, 0.5, size=(RESAMPLES, len(counts)))
    thrown, observed = np.abs((2 * ups - counts) @ sizes), abs(changes.sum())
    as_far = (thrown >= observed * (1 - 1e-12)).sum()
    return float((1 + as_far) / (1 + RESAMPLES))
