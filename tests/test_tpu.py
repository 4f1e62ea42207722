"""Reports about TPU programs: what is read from the compiler's text, and its facts."""

import math

import jax
import pytest

from helpers import tpu

PROGRAM = """HloModule jit_step

%cond (p: (s32[], f32[8,4])) -> pred[] {
  %trips = s32[] constant(26)
  ROOT %less = pred[] compare(%i, %trips), direction=LT
}

%body (p: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %gathered = bf16[1024,512]{1,0} all-gather(%shard), dimensions={0}
  %fused = f32[8,4] fusion(%x), kind=kOutput, backend_config={"estimated_cycles":"100"}
  ROOT %out = (s32[], f32[8,4]) tuple(%i, %fused)
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %loop = (s32[], f32[8,4]) while(%init), condition=%cond, body=%body
  %last = f32[8,4] fusion(%y), backend_config={"estimated_cycles":"7"}
  %start = (f32[256]{0}, f32[256]{0}) all-reduce-start(%z), to_apply=%sum
  ROOT %done = f32[256] all-reduce-done(%start)
}
"""


def test_cycles_in_a_loop_count_once_per_trip():
    assert tpu.modelled_cycles(PROGRAM) == 26 * 100 + 7


def test_collectives_are_counted_with_what_their_results_hold():
    found = tpu.collectives(PROGRAM)
    assert found["all-gather"] == (26, pytest.approx(26 * 1024 * 512 * 2 / 2**30))
    assert found["all-reduce"] == (1, pytest.approx(256 * 4 / 2**30))


# As libtpu 0.0.42 writes it: one gather in three fusions, the second beside a product.
OVERLAPPED = """
%begin (p: bf16[8,16]) -> (bf16[8,16], bf16[64,16]) {
  %g.1 = bf16[64,16]{1,0} all-gather(%p), frontend_attributes={chain_id="0"}
}

%carried (p: bf16[8,16], x: bf16[4,64]) -> (bf16[4,16], bf16[64,16]) {
  %g.2 = bf16[64,16]{1,0} all-gather(%p), frontend_attributes={chain_id="0"}
}

%end (p: bf16[8,16]) -> bf16[64,16] {
  %g.3 = bf16[64,16]{1,0} all-gather(%p), frontend_attributes={chain_id="0"}
}

ENTRY %main (p: bf16[8,16], x: bf16[4,64]) -> bf16[4,16] {
  %async-collective-start = (bf16[8,16]) fusion(%p), kind=kCustom, calls=%begin
  %fusion.74 = (bf16[4,16]) fusion(%p, %x), kind=kOutput, calls=%carried
  %async-collective-done = bf16[64,16] fusion(%q), kind=kCustom, calls=%end
  %own = bf16[32,16]{1,0} all-gather(%y), dimensions={0}
}
"""


def test_a_collective_that_overlaps_a_product_counts_once():
    found = tpu.collectives(OVERLAPPED)
    assert found == {"all-gather": (2, pytest.approx(96 * 16 * 2 / 2**30))}


def test_out_of_memory_is_said_in_three_lines_with_a_remedy():
    message = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for "
        "HLO temporaries (192.00G) exceeds available HBM (15.75G)."
    )
    said = tpu.out_of_memory(message)
    assert "needs 192.00G of 15.75G" in said and "LoRA" in said


@pytest.mark.parametrize("name", tpu.GENERATIONS)
def test_a_clock_and_square_units_give_the_published_peak(name):
    """128 × 128 units up to v5p, 256 × 256 after: a whole number of them on a chip."""
    chip = tpu.GENERATIONS[name]
    side = 256 if name in ("v6e", "tpu7x") else 128
    units = chip.tflops * 1e12 / (2 * side**2 * chip.ghz * 1e9)
    assert units == pytest.approx(round(units), rel=0.01)
    assert chip.usable_gb <= chip.hbm_gb


def test_a_slice_that_does_not_exist_is_said():
    with pytest.raises(LookupError, match="v5e-1"):
        tpu.devices("v9:1x1")
    with pytest.raises(LookupError, match="v5p:4x4x4"):
        tpu.devices("v5e")


def test_what_is_compiled_for_tpus_is_not_cached_and_the_setting_comes_back():
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    with tpu._quiet():
        assert jax.config.jax_persistent_cache_min_compile_time_secs == math.inf
    with pytest.raises(RuntimeError), tpu._quiet():
        raise RuntimeError("the compiler failed")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == before
