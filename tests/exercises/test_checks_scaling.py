"""The self-checks of notebook 13 turn away the answers that learners give first."""

import math

import jax
import numpy as np
import pytest

from helpers.exercises import scaling as checks
from helpers.tpu import profiles


def held(shapes, chips, *, each=12, first=False, together=False, whole=True):
    """The solution of exercise 1, with its usual mistakes as switches."""
    total = 0
    for shape in shapes:
        sizes = shape[:1] if first else shape
        cut = any(size % chips == 0 for size in sizes) or not whole
        cut = cut or (together and math.prod(shape) % chips == 0)
        total += each * math.prod(shape) / (chips if cut else 1)
    return total


def with_mistake(**mistake):
    return lambda shapes, chips: held(shapes, chips, **mistake)


@pytest.mark.parametrize(
    "answer, word",
    [
        (with_mistake(each=4), "two moments"),
        (lambda shapes, chips: 12 * math.prod(shapes[-1]), "add up"),
        (lambda shapes, chips: held(shapes, 1), "eighth"),
        (with_mistake(first=True), "later axis"),
        (with_mistake(whole=False), "leave an array whole"),
        (with_mistake(together=True), "two axes"),
    ],
)
def test_a_wrong_count_of_bytes_is_told_why(answer, word):
    verdict = checks.check_bytes_per_chip(answer)
    assert not verdict.passed and word in verdict.message


def test_the_right_count_of_bytes_passes():
    assert checks.check_bytes_per_chip(held).passed


def gather(x, axis):
    return jax.lax.all_gather(x, axis, tiled=True)


def scatter(x, axis):
    return jax.lax.psum_scatter(x, axis, tiled=True)


def right(x, gate, up, down, axis):
    x = gather(x, axis)
    return scatter(jax.nn.gelu(x @ gate) * (x @ up) @ down, axis)


def all_rows(x, gate, up, down, axis):
    x = gather(x, axis)
    return jax.lax.psum(jax.nn.gelu(x @ gate) * (x @ up) @ down, axis)


def own_rows_only(x, gate, up, down, axis):
    return jax.nn.gelu(x @ gate) * (x @ up) @ down


def mean_for_sum(x, gate, up, down, axis):
    return right(x, gate, up, down, axis) / jax.lax.axis_size(axis)


def gathers_twice(x, gate, up, down, axis):
    hidden = jax.nn.gelu(gather(x, axis) @ gate) * (gather(x, axis) @ up)
    return scatter(hidden @ down, axis)


def gathers_weights(x, gate, up, down, axis):
    gate, up = (jax.lax.all_gather(w, axis, axis=1, tiled=True) for w in (gate, up))
    return jax.nn.gelu(x @ gate) * (x @ up) @ gather(down, axis)


def sums_then_cuts(x, gate, up, down, axis):
    whole, B = all_rows(x, gate, up, down, axis), x.shape[0]
    start = jax.lax.axis_index(axis) * B
    return jax.lax.dynamic_slice_in_dim(whole, start, B)


@pytest.mark.parametrize(
    "answer, word",
    [
        (all_rows, "as many rows"),
        (own_rows_only, "row by row"),
        (mean_for_sum, "row by row"),
        (gathers_twice, "once"),
        (gathers_weights, "once"),
        (sums_then_cuts, "deal out"),
    ],
)
def test_a_wrong_cut_layer_is_told_why(answer, word):
    verdict = checks.check_rows_to_rows(answer)
    assert not verdict.passed and word in verdict.message


def test_the_right_cut_layer_passes_also_when_it_is_compiled():
    assert checks.check_rows_to_rows(right).passed
    compiled = jax.jit(right, static_argnames="axis")
    assert checks.check_rows_to_rows(compiled).passed


def walk(operations, start, end, furthest=max, clip=True):
    """The solution of exercise 3, with two of its mistakes as switches."""
    free, gaps = start, []
    for begin, seconds in sorted(operations):
        gaps.append(((min(begin, end) if clip else begin) - free, free))
        free = furthest(free, begin + seconds)
    length, begin = max([*gaps, (end - free, free)])
    return begin, length


def only_between(operations, start, end):
    first = min((begin for begin, _ in operations), default=start)
    return walk(operations, max(first, start), end)


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda *given: walk(*given)[::-1], "between two"),
        (lambda x, a, b: walk([(s, 0.0) for s, _ in x], a, b), "between two"),
        (lambda *given: walk(*given, furthest=lambda free, end: end), "one thread"),
        (only_between, "before the first"),
        (lambda *given: walk(*given, clip=False), "stop at the end"),
    ],
)
def test_a_wrong_gap_is_told_why(answer, word):
    verdict = checks.check_longest_gap(answer)
    assert not verdict.passed and word in verdict.message


def test_the_gap_that_the_course_itself_uses_passes():
    assert checks.check_longest_gap(walk).passed
    assert checks.check_longest_gap(profiles.longest_gap).passed


def test_the_faulty_runs_have_the_faults_that_they_are_for(tmp_path):
    runs = checks.faulty_runs(tmp_path)
    compiled = {}
    for letter, folder in runs.items():
        profile = profiles.read(folder)
        spans = [span for span in profile.spans if span.name == "train"]
        assert len(spans) == 5
        scored = [span.seconds for span in profile.spans if span.name == "score"]
        assert (min(scored) > 0.1) == (letter == "A")
        compiled[letter] = sum(
            span.name == "lower_sharding_computation" for span in profile.spans
        )
    assert compiled["A"] == 0 and compiled["B"] >= 5


def mean_of_means(losses, mask, axis):
    return jax.lax.pmean((losses * mask).sum() / mask.sum(), axis)


def own_mean(losses, mask, axis):
    return (losses * mask).sum() / mask.sum()


def over_all_places(losses, mask, axis):
    return jax.lax.pmean((losses * mask).mean(), axis)


def skips_the_empty(losses, mask, axis):
    total = jax.lax.psum((losses * mask).sum() / mask.sum() * mask.sum(), axis)
    return total / jax.lax.psum(mask.sum(), axis)


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda losses, mask, axis: losses, "one number"),
        (own_mean, "same number"),
        (over_all_places, "equally many"),
        (mean_of_means, "6, 1, 2 and 5"),
        (skips_the_empty, "has none"),
    ],
)
def test_a_wrong_mean_is_told_why(answer, word):
    verdict = checks.check_global_mean(answer)
    assert not verdict.passed and word in verdict.message


def test_the_right_mean_passes():
    def answer(losses, mask, axis):
        total = jax.lax.psum((losses * mask).sum(), axis)
        return total / jax.lax.psum(mask.sum(), axis)

    assert checks.check_global_mean(answer).passed


def test_the_played_chips_agree_with_numpy():
    """vmap with a named axis is what the checks take for chips."""
    x = np.arange(12.0).reshape(4, 3)
    total = jax.vmap(lambda row: jax.lax.psum(row, "i"), axis_name="i")(x)
    assert np.array_equal(total, np.tile(x.sum(axis=0), (4, 1)))
    parts = jax.vmap(lambda row: scatter(row, "i"), axis_name="i")(np.ones((4, 8)))
    assert np.array_equal(parts, np.full((4, 2), 4.0))
