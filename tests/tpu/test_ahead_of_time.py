"""Facts about TPUs, and slices that do not exist."""

import dataclasses
import math
import types

import jax
import pytest

from helpers.tpu import ahead_of_time, where_time_goes


@pytest.mark.parametrize("name", ahead_of_time.GENERATIONS)
def test_a_clock_and_square_units_give_the_published_peak(name):
    """128 × 128 units up to v5p, 256 × 256 after: a whole number of them on a chip."""
    chip = ahead_of_time.GENERATIONS[name]
    side = 256 if name in ("v6e", "tpu7x") else 128
    units = chip.tflops * 1e12 / (2 * side**2 * chip.ghz * 1e9)
    assert units == pytest.approx(round(units), rel=0.01)
    # v5p is sold as 95 GB and has 96 GiB, so its makers round too.
    assert 0.9 * chip.hbm_gb < chip.usable_gb * chip.devices < chip.hbm_gb + 1


def test_a_slice_that_does_not_exist_is_said():
    with pytest.raises(LookupError, match="v5e-1"):
        ahead_of_time.devices("v9:1x1")
    with pytest.raises(LookupError, match="v5p:4x4x4"):
        ahead_of_time.devices("v5e")


def test_a_report_has_the_counts_by_hand_beside_the_compilers():
    """A loop of ten products, compiled here: by hand ten, by the compiler one."""
    n, loops = 128, 10
    x = jax.numpy.zeros((n, n), jax.numpy.float32)
    step = jax.jit(lambda x: jax.lax.scan(lambda y, _: (y @ x, None), x, length=loops))
    report = ahead_of_time.report("v5e-1", 1, step.lower(x), flops=loops * 2 * n**3)
    assert report.tflop == pytest.approx(loops * 2 * n**3 / 1e12)
    assert 2 * n**3 <= report.compiler_tflop * 1e12 < 4 * n**3
    assert report.gbytes * 1e9 == 2 * x.nbytes
    assert report.compiler_gbytes * 1e9 >= 3 * x.nbytes
    assert "loops once" in str(report)


def test_the_text_of_a_program_has_its_products():
    x = jax.numpy.zeros((128, 64), jax.numpy.float32)
    found = where_time_goes.instructions(
        ahead_of_time.text(jax.jit(lambda x: x @ x.T @ x), x)
    )
    assert sum(one.flops for one in found) == 2 * 2 * 128 * 128 * 64


def test_the_longer_of_the_compilers_sum_and_the_roofline_is_quoted():
    """Compiled here, where the compiler estimates nothing: that is said."""
    x = jax.numpy.zeros((128, 128), jax.numpy.float32)
    report = ahead_of_time.report("v5e-1", 1, jax.jit(lambda x: x @ x).lower(x))
    assert report.modelled_ms == 0 < report.roofline_ms == report.quoted_ms
    assert sum(report.unpriced.values()) == report.unpriced_calls >= 1
    assert report.pallas_calls == 0 and report.by_kind == {"product": 0}
    assert sum(share.tflop for share in report.by_place) == 2 * 128**3 / 1e12
    assert report.modelled_peak_percent == pytest.approx(
        100 * report.tflop / (197 * report.quoted_ms / 1e3)
    )
    kernels = dataclasses.replace(report, unpriced={"tpu_custom_call": 3})
    assert kernels.pallas_calls == 3 and "without 3 tpu_custom_call" in str(kernels)
    assert dataclasses.replace(report, modelled_ms=7.0).quoted_ms == 7
    kernels = dataclasses.replace(report, modelled_ms=7.0, kernels_ms=2.0)
    assert kernels.quoted_ms == 9


def test_what_is_compiled_for_tpus_is_not_cached_and_the_setting_comes_back():
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    with ahead_of_time._quiet():
        assert jax.config.jax_persistent_cache_min_compile_time_secs == math.inf
    with pytest.raises(RuntimeError), ahead_of_time._quiet():
        raise RuntimeError("the compiler failed")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == before


@pytest.mark.parametrize(
    "peak, used",
    [(11, 11), (12, 12), (17, 12)],  # a peak of 17 has 5 that lie on the host
)
def test_what_lies_on_the_host_is_not_in_use_on_a_chip(peak, used):
    memory = types.SimpleNamespace(
        peak_memory_in_bytes=peak,
        argument_size_in_bytes=6,
        temp_size_in_bytes=4,
        output_size_in_bytes=5,
        alias_size_in_bytes=3,
    )
    assert ahead_of_time.in_use(memory) == used
