"""The self-checks of notebook 01 refuse the mistakes they are there to find."""

import math

import pytest
from exercise_answers import products

from helpers.exercises import tpu as checks


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (lambda B, D, F, s: 2 * B * D * F / (s * D * F), "three matrices"),
        (lambda B, D, F, s: B * D * F / (s * (B * D + D * F + B * F)), "one row|add"),
        (lambda B, D, F, s: 2 * B * D * F / (B * D + D * F + B * F), "one row"),
        (lambda B, D, F, s: B * D * F / (B * D + D * F + B * F), "twice the bytes"),
    ],
)
def test_intensities_are_refused_with_the_reason(answer, complaint):
    check = checks.check_intensity(answer)
    assert not check.passed
    assert any(part in check.message for part in complaint.split("|"))


def turning(D, F, ridge, *, rounded=math.ceil, bounded=True):
    left = D * F - ridge * (D + F)
    if bounded and left <= 0:
        return None
    return rounded(ridge * D * F / left)


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (lambda D, F, r: math.ceil(r), "narrow"),
        (lambda D, F, r: turning(D, F, r, rounded=math.floor), "very wide|round up"),
        (lambda D, F, r: turning(D, F, r, rounded=float), "whole number"),
        (lambda D, F, r: turning(D, F, r, bounded=False), "None"),
        (lambda D, F, r: turning(D, F, 197e12 / 819e9), "any ridge"),
    ],
)
def test_turning_batches_are_refused_with_the_reason(answer, complaint):
    check = checks.check_turning_batch(answer)
    assert not check.passed
    assert any(part in check.message for part in complaint.split("|"))
    assert checks.check_turning_batch(turning).passed


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (lambda lengths, *_: [min(lengths)], "the longest text"),
        (lambda lengths, *_: sorted(set(lengths)), "costs more than any padding"),
        (lambda lengths, *_: [max(lengths)], "for every length"),
        (products.best_of(programs=lambda own: 0), "costs more than any padding"),
        (
            lambda lengths, *prices: products.best_of()([*set(lengths)], *prices),
            "how many texts",
        ),
        (products.splitting, "least time"),
        (products.sorts, "as it is"),
    ],
)
def test_buckets_are_refused_with_the_reason(answer, complaint):
    check = checks.check_buckets(answer)
    assert not check.passed and complaint in check.message
    assert checks.check_buckets(products.by_last_bucket).passed


def hops(a, b, shape, rings, nearer=min):
    total = 0
    for x, y, size, ring in zip(a, b, shape, rings, strict=True):
        away = abs(x - y)
        total += nearer(away, size - away) if ring else away
    return total


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (
            lambda a, b, s, r: max(abs(x - y) for x, y in zip(a, b, strict=True)),
            "add up",
        ),
        (lambda a, b, s, r: sum(y - x for x, y in zip(a, b, strict=True)), "both ways"),
        (lambda a, b, s, r: hops(a, b, s, (False,) * 3), "go round"),
        (
            lambda a, b, s, r: hops(a, b, s, r, nearer=lambda x, y: y * (x > 0)),
            "go straight",
        ),
        (lambda a, b, s, r: hops(a, b, s, (any(r),) * 3), "only along"),
        (lambda a, b, s, r: hops(a, b, s, (*r[:2], False)), "three dimensions"),
    ],
)
def test_hops_are_refused_with_the_reason(answer, complaint):
    check = checks.check_hops(answer)
    assert not check.passed and complaint in check.message
    assert checks.check_hops(hops).passed
