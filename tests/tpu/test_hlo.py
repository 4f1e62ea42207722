"""What a compiled program's text says: loops, collectives, FLOPs and bytes."""

import re

import jax
import jax.numpy as jnp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.tpu import compiler, hlo
from helpers.tpu.hlo import Program, hbm_bytes, matmul_flops

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
  %none = f32[] fusion(%y), backend_config={"estimated_cycles":"9223372036854775807"}
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
    both = "true_computation=%near, false_computation=%far"
    other = BRANCHES.replace("branch_computations={%near, %far}", both)
    assert hlo.modelled_cycles(other) == 37


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
    line = next(hlo.Program(text).walk())[0].line
    assert hlo.kernel_flops(line) == products * 2 * 1000 * 128
    wider = line.replace("wide_64", "wide_129")
    assert hlo.kernel_flops(wider) == products * 2 * 1000 * 256
    assert hlo.kernel_flops(line.replace("tpu_custom_call", "Sharding")) == 0
    assert hlo.kernel_flops(line.replace("pairs_1000", "")) == 0


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
    said = compiler.out_of_memory(message)
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


def program_of(function, *arguments):
    """A function's program as JAX writes it, names marked as in a compiled one."""
    text = jax.jit(function).lower(*arguments).as_text(dialect="hlo")
    text = re.sub(r"(?<![\w.%])([a-z]\w*\.\d+)", r"%\1", text)
    return Program(re.sub(r"ENTRY (\S+) \{", r"ENTRY \1 () -> f32[] {", text))


def only(program, *opcodes):
    (found,) = (
        part
        for parts in program.parts.values()
        for part in parts
        if part.opcode in opcodes
    )
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_a_convolution_of_ones_adds_up_to_its_multiplications(
    size, window, stride, padding, spread, step
):
    """Each product of two ones that meet adds 1 to the result; padding adds nothing."""
    x, w = jnp.ones((2, size, 3)), jnp.ones((window, 3, 5))
    span = (size - 1) * spread + 1 + sum(padding)

    def convolve(x, w):
        return jax.lax.conv_general_dilated(
            x,
            w,
            (stride,),
            [padding],
            lhs_dilation=(spread,),
            rhs_dilation=(step,),
            dimension_numbers=("NHC", "HIO", "NHC"),
        )

    assume(span >= (window - 1) * step + 1)  # the window fits into what it walks over
    program = program_of(convolve, x, w)
    flops = matmul_flops(program.shapes, only(program, "convolution"))
    assert flops == pytest.approx(2 * float(convolve(x, w).sum()))


@pytest.mark.parametrize("axes", ["bij,bkj->bik", "abi,ab->i"])
def test_a_product_of_ones_adds_up_to_its_multiplications(axes):
    size = {"a": 2, "b": 3, "i": 4, "j": 5, "k": 6}
    left, right = axes.partition("->")[0].split(",")
    x, y = (jnp.ones([size[axis] for axis in names]) for names in (left, right))
    program = program_of(lambda x, y: jnp.einsum(axes, x, y), x, y)
    flops = matmul_flops(program.shapes, only(program, "dot"))
    assert flops == 2 * jnp.einsum(axes, x, y).sum()


# As libtpu writes it; S(1) is the memory on the chip itself.
STACKS = """
%cut (p: bf16[24,64,128], i: s32[], x: bf16[32,64]) -> bf16[32,128] {
  %p = bf16[24,64,128]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %x = bf16[32,64]{1,0} parameter(2)
  %one = bf16[1,64,128]{2,1,0} dynamic-slice(%p, %i), dynamic_slice_sizes={1,64,128}
  %w = bf16[64,128]{1,0} bitcast(%one)
  ROOT %y = bf16[32,128]{1,0} convolution(%x, %w), dim_labels=bf_io->bf
}

%put (s: f32[24,32], z: f32[32], j: s32[]) -> (f32[24,32], f32[32]) {
  %s = f32[24,32]{1,0} parameter(0)
  %z = f32[32]{0} parameter(1)
  %j = s32[] parameter(2)
  %row = f32[1,32]{1,0} bitcast(%z)
  %kept = f32[24,32]{1,0} dynamic-update-slice(%s, %row, %j)
  %twice = f32[32]{0} add(%z, %z)
  ROOT %both = (f32[24,32]{1,0}, f32[32]{0}) tuple(%kept, %twice)
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %stack = bf16[24,64,128]{2,1,0} parameter(0)
  %near = bf16[32,64]{1,0:S(1)} parameter(1)
  %n = s32[]{:S(6)} parameter(2)
  %rows = f32[24,32]{1,0} parameter(3)
  %new = f32[32]{0:S(1)} parameter(4)
  %all = f32[8,4]{1,0} parameter(5)
  %sliced = bf16[32,128]{1,0} fusion(%stack, %n, %near), kind=kOutput, calls=%cut
  %stored = (f32[24,32]{1,0}, f32[32]{0}) fusion(%rows, %new, %n), calls=%put
  %into = (f32[8,4]{1,0:S(1)}, f32[8,4]{1,0}, u32[]{:S(2)}) copy-start(%all)
  %one = ((bf16[24,64,128]{2,1,0}, s32[], s32[], s32[]), bf16[64,128]{1,0:T(8,128)S(1)}, s32[]) dynamic-slice-start(%stack, %n, %n, %n)
  %put_in = f32[24,32]{1,0} dynamic-update-slice(%rows, %new, %n)
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sliced", 2 * (64 * 128 + 32 * 128)),  # one layer's weights, the result
        ("stored", 4 * (32 + 32)),  # a row of the stack, the second result
        ("into", 4 * 32),  # from HBM to the chip's own memory: read once
        ("one", 2 * 64 * 128),
        ("put_in", 2 * 4 * 32),
    ],
)
def test_of_a_stack_the_piece_that_is_touched_counts(name, expected):
    program = Program(STACKS)
    (part,) = (part for part in program.parts["main"] if part.name == name)
    assert hbm_bytes(program, part) == expected


@pytest.mark.parametrize("dtype", "int4 uint8 float8_e4m3fn bfloat16 float64".split())
def test_every_kind_of_number_has_its_bytes(dtype):
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct((3, 4, 8), dtype)
        text = jax.jit(jnp.transpose).lower(x).as_text(dialect="hlo")
        bits = 4 if dtype == "int4" else 8 * jnp.dtype(dtype).itemsize
    shape = re.search(r"(\w+)\[3,4,8\]", text)
    assert hlo.array_bytes(shape[1], "3,4,8") == 3 * 4 * 8 * bits // 8
    assert hlo.array_bytes("pred", "8") == 8 and hlo.array_bytes("token", "") == 0
