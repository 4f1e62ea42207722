"""What a compiled program's text says: loops, collectives, FLOPs and bytes."""

import pathlib
import re

import jax
import jax.numpy as jnp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.tpu import hlo
from helpers.tpu.hlo import Program, hbm_bytes, matmul_flops

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def text_of(name):
    """A program as libtpu 0.0.42 writes it; S(1) is the memory on the chip itself."""
    return (PROGRAMS / f"{name}.hlo").read_text()


LOOP = text_of("loop")


def cycles(text):
    walk = Program(text).walk()
    return sum(times * (hlo.estimate(part.line) or 0) for part, times in walk)


def test_cycles_in_a_loop_count_once_per_trip():
    assert cycles(LOOP) == 26 * 100 + 7


def test_collectives_are_counted_with_what_their_results_hold():
    counted = hlo.collectives(LOOP)
    assert counted["all-gather"] == (26, pytest.approx(26 * 1024 * 512 * 2 / 2**30))
    assert counted["all-reduce"] == (1, pytest.approx(256 * 4 / 2**30))


def test_an_asynchronous_gather_of_several_counts_its_results_only():
    """The start's shape has operands, results and scalars of the runtime."""
    results = "(bf16[32,8]{1,0}, f32[16]{0})"
    line = (
        f"  %s = ((bf16[4,8]{{1,0}}, f32[2]{{0}}), {results}, u32[])"
        f" all-gather-start(%a, %b)\n  %d = {results} all-gather-done(%s)\n"
    )
    counted = hlo.collectives("ENTRY %main (a: f32[]) -> f32[] {\n" + line + "}\n")
    assert counted["all-gather"] == (1, pytest.approx((32 * 8 * 2 + 16 * 4) / 2**30))


BRANCHES = text_of("branches")


def test_of_the_branches_of_a_condition_the_dearest_counts():
    assert cycles(BRANCHES) == 37
    both = "true_computation=%near, false_computation=%far"
    other = BRANCHES.replace("branch_computations={%near, %far}", both)
    assert cycles(other) == 37


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


OVERLAPPED = text_of("overlapped")


def test_a_collective_that_overlaps_a_matmul_counts_once():
    """One gather in three fusions, the second beside a matmul."""
    counted = hlo.collectives(OVERLAPPED)
    assert counted == {"all-gather": (2, pytest.approx(96 * 16 * 2 / 2**30))}


FUSED = text_of("fused")


def test_what_an_operation_does_is_what_is_fused_in_it():
    expected = {"fused": "product", "alone": "product", "cut_fusion": "move"}
    expected |= {"copy.3": "move", "sum_fusion": "elementwise"}
    program = Program(FUSED)
    kinds = {name: hlo.kind(program, program.named[name]) for name in expected}
    assert kinds == expected


def program_of(function, *arguments):
    """A function's program as JAX writes it, names marked as in a compiled one."""
    text = jax.jit(function).lower(*arguments).as_text(dialect="hlo")
    text = re.sub(r"(?<![\w.%])([a-z]\w*\.\d+)", r"%\1", text)
    return Program(re.sub(r"ENTRY (\S+) \{", r"ENTRY \1 () -> f32[] {", text))


def only(program, *opcodes):
    (part,) = (part for part in program.named.values() if part.opcode in opcodes)
    return part


@settings(max_examples=10, deadline=None)
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


STACKS = text_of("stacks")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sliced", 2 * (64 * 128 + 32 * 128)),  # one layer's weights, the result
        ("stored", 4 * (32 + 32)),  # a row of the stack, the second result
        ("into", 4 * 32),  # from HBM to memory on the chip: read once
        ("one", 2 * 64 * 128),
        ("put_in", 2 * 4 * 32),
    ],
)
def test_of_a_stack_the_piece_that_is_touched_counts(name, expected):
    program = Program(STACKS)
    assert hbm_bytes(program, program.named[name]) == expected


def test_every_kind_of_number_has_its_bytes():
    sizes = {"s4": 0.5, "u8": 1, "f8e4m3fn": 1, "bf16": 2, "f64": 8, "pred": 1}
    for dtype, each in sizes.items():
        assert hlo.array_bytes(dtype, "3,4,8") == 3 * 4 * 8 * each
    assert hlo.array_bytes("token", "") == 0
