"""What is read from a compiled program's text."""

import pytest

from helpers.tpu import hlo

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
    assert hlo.modelled_cycles(PROGRAM) == 26 * 100 + 7


def test_collectives_are_counted_with_what_their_results_hold():
    found = hlo.collectives(PROGRAM)
    assert found["all-gather"] == (26, pytest.approx(26 * 1024 * 512 * 2 / 2**30))
    assert found["all-reduce"] == (1, pytest.approx(256 * 4 / 2**30))


def test_an_asynchronous_gather_of_several_counts_its_results_only():
    """Operands first, then results, then scalars of the runtime."""
    line = (
        "  %s = ((bf16[4,8]{1,0}, f32[2]{0}), (bf16[32,8]{1,0}, f32[16]{0}), u32[])"
        " all-gather-start(%a, %b)\n"
    )
    found = hlo.collectives("ENTRY %main (a: f32[]) -> f32[] {\n" + line + "}\n")
    assert found["all-gather"] == (1, pytest.approx((32 * 8 * 2 + 16 * 4) / 2**30))


def test_an_operation_without_an_estimate_is_not_counted():
    """The compiler then writes the largest number there is."""
    line = '  %x = f32[] fusion(%y), backend_config={{"estimated_cycles":"{}"}}\n'
    body = line.format(2**63 - 1) + line.format(5)
    text = "ENTRY %main (a: f32[]) -> f32[] {\n" + body + "}\n"
    assert hlo.modelled_cycles(text) == 5


BRANCHES = """HloModule jit_step

%near (p: f32[8]) -> f32[8] {
  ROOT %a = f32[8] fusion(%p), backend_config={"estimated_cycles":"10"}
}

%far (p: f32[8]) -> f32[8] {
  ROOT %b = f32[8] fusion(%p), backend_config={"estimated_cycles":"30"}
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %c = f32[8]{0} conditional(%is_far, %a, %a), branch_computations={%near, %far}
  ROOT %d = f32[8] fusion(%c), backend_config={"estimated_cycles":"7"}
}
"""


def test_of_the_branches_of_a_condition_the_dearest_counts():
    assert hlo.modelled_cycles(BRANCHES) == 37
    other = BRANCHES.replace("%near, %far", "%far, %near")
    assert hlo.modelled_cycles(other) == 37
    both = "true_computation=%near, false_computation=%far"
    other = BRANCHES.replace("branch_computations={%near, %far}", both)
    assert hlo.modelled_cycles(other) == 37
    other = BRANCHES.replace('cycles":"30', 'cycles":"3')
    assert hlo.modelled_cycles(other) == 17


KERNEL = """  %splash_mha_{kind}_segmented.6 = f32[4,64]{{1,0}} custom-call(%q, %k), \
custom_call_target="tpu_custom_call", frontend_attributes={{kernel_metadata={{
 "xprof_metadata":"{{}}"
}}}}, metadata={{op_name="jit(f)/pairs_{pairs}_wide_64/vmap(static_sparsity_splash)/\
splash_mha_{kind}_segmented/pallas_call" stack_frame_id=144}}
"""


@pytest.mark.parametrize("kind, products", [("fwd", 2), ("dq", 3), ("dkv", 4)])
def test_a_kernel_says_what_it_computes(kind, products):
    """Over three lines, as libtpu 0.0.42 writes it."""
    kernel = KERNEL.format(kind=kind, pairs=1000)
    text = f"ENTRY %main (a: f32[]) -> f32[] {{\n{kernel}}}\n"
    line, _ = next(hlo.Program(text).walk())
    assert hlo.kernel_flops(line) == products * 2 * 1000 * 128
    wider = line.replace("wide_64", "wide_129")
    assert hlo.kernel_flops(wider) == products * 2 * 1000 * 256
    assert hlo.kernel_flops(line.replace("tpu_custom_call", "Sharding")) == 0
    assert hlo.kernel_flops(line.replace("pairs_1000", "")) == 0


def test_of_two_kernels_the_one_with_more_pairs_is_the_dearer_branch():
    near, far = (KERNEL.format(kind="fwd", pairs=n) for n in (10**6, 10**8))
    text = (
        f"%near (p: f32[]) -> f32[] {{\n{near}}}\n"
        f"%far (p: f32[]) -> f32[] {{\n{far}}}\n"
        "ENTRY %main (a: f32[]) -> f32[] {\n"
        "  %c = f32[] conditional(%a), branch_computations={%far, %near}\n}\n"
    )
    walked = [line for line, _ in hlo.Program(text).walk()]
    assert sum(map(hlo.kernel_flops, walked)) == 4 * 10**8 * 128


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
    found = hlo.collectives(OVERLAPPED)
    assert found == {"all-gather": (2, pytest.approx(96 * 16 * 2 / 2**30))}


def test_out_of_memory_is_said_in_three_lines_with_a_remedy():
    message = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for "
        "HLO temporaries (192.00G) exceeds available HBM (15.75G)."
    )
    said = hlo.out_of_memory(message)
    assert "needs 192.00G of 15.75G" in said and "LoRA" in said


FUSED = """HloModule jit_layer

%inner (p: f32[8,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0} parameter(0)
  ROOT %dot.1 = f32[8,4]{1,0} dot(%p, %p), lhs_contracting_dims={1}
}

%deep (q: f32[8,4]) -> f32[8,4] {
  %q = f32[8,4]{1,0} parameter(0)
  ROOT %f = f32[8,4]{1,0} fusion(%q), kind=kCustom, calls=%inner
}

%piece (r: f32[9,8,4], i: s32[]) -> f32[8,4] {
  %r = f32[9,8,4]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %nine = s32[] constant(9)
  %from = s32[] add(%i, %nine)
  %cut = f32[1,8,4]{2,1,0} dynamic-slice(%r, %from), dynamic_slice_sizes={1,8,4}
  ROOT %flat = f32[8,4]{1,0} bitcast(%cut)
}

%sums (s: f32[8,4]) -> f32[8,4] {
  %s = f32[8,4]{1,0} parameter(0)
  %t = f32[8,4]{1,0} transpose(%s), dimensions={0,1}
  ROOT %more = f32[8,4]{1,0} add(%s, %t)
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  %fused = f32[8,4]{1,0} fusion(%a), kind=kOutput, calls=%deep
  %alone = f32[8,4]{1,0} dot(%a, %a), lhs_contracting_dims={1}
  %library = (f32[8,4]{1,0}, u8[64]{0}) custom-call(%a), custom_call_target="x$matmul"
  %other = f32[8,4]{1,0} custom-call(%a), custom_call_target="TopK"
  %cut_fusion = f32[8,4]{1,0} fusion(%a, %i), kind=kLoop, calls=%piece
  %copy.3 = f32[8,4]{0,1} copy(%a)
  %sum_fusion = f32[8,4]{1,0} fusion(%a), kind=kLoop, calls=%sums
  %loop = (s32[], /*index=1*/f32[8,4]{1,0}) while(%t), condition=%c, body=%b
  ROOT %call.2 = f32[8,4]{1,0} call(%fused), to_apply=%deep
}
"""


def test_what_an_operation_does_is_what_is_fused_in_it():
    expected = {"fused": "product", "alone": "product", "library": "product"}
    expected |= {"other": "rest", "cut_fusion": "move", "copy.3": "move"}
    expected |= {"sum_fusion": "rest", "loop": "loop", "call.2": "loop"}
    found = hlo.operation_kinds(FUSED)
    assert {name: found[name] for name in expected} == expected
    assert hlo.operation_kinds(FUSED.replace("%", "")) == found
