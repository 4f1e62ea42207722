"""Facts about TPUs, and what a compiled program says of itself."""

import dataclasses
import math
import sys
import types
from importlib import metadata, util

import jax
import pytest

from helpers.tpu import compiler, programs, topology, where_time_goes

V5E = topology.GENERATIONS["v5e"]


@pytest.mark.parametrize("name", topology.GENERATIONS)
def test_a_clock_and_square_units_give_the_published_peak(name):
    """128 × 128 units up to v5p, 256 × 256 after: a whole number of them on a chip."""
    chip = topology.GENERATIONS[name]
    side = 256 if name in ("v6e", "tpu7x") else 128
    units = chip.tflops * 1e12 / (2 * side**2 * chip.ghz * 1e9)
    assert units == pytest.approx(round(units), rel=0.01)
    # v5p is sold as 95 GB and has 96 GiB, so its makers round too.
    assert 0.9 * chip.hbm_gb < chip.usable_gb * chip.devices < chip.hbm_gb + 1


def test_a_report_has_the_counts_by_hand_beside_the_compilers():
    """A loop of ten products, compiled here: by hand ten, by the compiler one."""
    n, loops = 128, 10
    x = jax.numpy.zeros((n, n), jax.numpy.float32)
    step = jax.jit(lambda x: jax.lax.scan(lambda y, _: (y @ x, None), x, length=loops))
    report = compiler.compile_for("v5e-1", step, x, flops=loops * 2 * n**3)
    assert report.tflop == pytest.approx(loops * 2 * n**3 / 1e12)
    assert 2 * n**3 <= report.compiler_tflop * 1e12 < 4 * n**3
    assert report.compiler_gbytes * 1e9 >= 3 * x.nbytes
    assert report.modelled_ms == 0 < report.roofline_ms == report.quoted_ms
    assert sum(report.unpriced.values()) >= 1, "this compiler estimates nothing"
    longer = dataclasses.replace(report, modelled_ms=7.0, kernels_ms=2.0)
    assert longer.quoted_ms == 9
    share = 100 * loops * 2 * n**3 / (197e12 * 9e-3)
    assert longer.peak_percent(longer.quoted_ms) == pytest.approx(share)


def test_a_program_that_does_not_fit_has_a_verdict_with_the_compilers_numbers():
    class TooLarge:
        def compile(self):
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Used 20.50G of 15.75G hbm.\nLargest: …"
            )

    report = compiler.report("v5e-8", TooLarge())
    assert report.chips == 8 and "LoRA" in report.verdict
    assert "20.50G of 15.75G" in report.verdict.splitlines()[0]


def test_what_is_compiled_for_tpus_is_not_cached_and_the_setting_comes_back():
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    with compiler.quiet():
        assert jax.config.jax_persistent_cache_min_compile_time_secs == math.inf
    with pytest.raises(RuntimeError), compiler.quiet():
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
    assert compiler.bytes_in_use(memory) == used


def test_the_example_computes_two_of_three_matmuls_again():
    """What the third one made is never read. Its sum falls, its bound grows."""
    product, whole = 2 * math.prod(programs.EXAMPLE), {}
    for again in (False, True):
        listed = where_time_goes.instructions(programs.example_text(again))
        rows = where_time_goes.shares(listed, V5E, lambda one: one.phase)
        phases = {row.label: row.tflop * 1e12 / product for row in rows}
        assert phases["forward"] == pytest.approx(3)
        assert phases["backward"] == pytest.approx(6)
        assert phases.get("again", 0) == pytest.approx(2 if again else 0)
        (whole[again],) = where_time_goes.shares(listed, V5E, lambda one: "all")
    assert whole[True].modelled_ms < 0.97 * whole[False].modelled_ms
    assert whole[True].bound_ms > 1.1 * whole[False].bound_ms
    assert whole[True].gb < 0.45 * whole[False].gb


def test_a_compiler_installed_aside_can_be_imported(monkeypatch, tmp_path):
    assert any(x.startswith(compiler.requirement()) for x in metadata.requires("jax"))
    monkeypatch.setattr(compiler, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    assert not compiler.find_compiler() and str(tmp_path) not in "".join(sys.path)
    (compiler.folder() / "libtpu").mkdir(parents=True)
    compiler.find_compiler()
    assert sys.path[-1] == str(compiler.folder())
