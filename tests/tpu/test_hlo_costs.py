"""What an instruction computes and moves, against what it does."""

import re

import jax
import jax.numpy as jnp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.tpu.hlo import Program, array_bytes
from helpers.tpu.hlo_costs import hbm_bytes, product_flops


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
    flops = product_flops(program.shapes, only(program, "convolution"))
    assert flops == pytest.approx(2 * float(convolve(x, w).sum()))


@pytest.mark.parametrize(
    "axes", ["ij,jk->ik", "bij,bkj->bik", "abi,ab->i", "ij,kj->ki"]
)
def test_a_product_of_ones_adds_up_to_its_multiplications(axes):
    size = {"a": 2, "b": 3, "i": 4, "j": 5, "k": 6}
    left, right = axes.partition("->")[0].split(",")
    x, y = (jnp.ones([size[axis] for axis in names]) for names in (left, right))
    program = program_of(lambda x, y: jnp.einsum(axes, x, y), x, y)
    flops = product_flops(program.shapes, only(program, "dot"))
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

%put_and_read (r: f32[24,32], m: f32[32], i: s32[]) -> (f32[24,32], f32[24]) {
  %r = f32[24,32]{1,0} parameter(0)
  %m = f32[32]{0} parameter(1)
  %i = s32[] parameter(2)
  %now = f32[24,32]{1,0} dynamic-update-slice(%r, %m, %i)
  %sums = f32[24]{0} reduce(%now, %i), dimensions={1}, to_apply=%add
  ROOT %pair = (f32[24,32]{1,0}, f32[24]{0}) tuple(%now, %sums)
}

%twice_read (q: f32[8,4]) -> f32[8,4] {
  %q = f32[8,4]{1,0} parameter(0)
  %head = f32[1,4]{1,0} slice(%q), slice={[0:1], [0:4]}
  ROOT %sum = f32[8,4]{1,0} add(%q, %head)
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
  %looked = (f32[24,32]{1,0}, f32[24]{0}) fusion(%rows, %new, %n), kind=kLoop, calls=%put_and_read
  %whole = f32[8,4]{1,0} fusion(%all), kind=kLoop, calls=%twice_read
  %into = (f32[8,4]{1,0:S(1)}, f32[8,4]{1,0}, u32[]{:S(2)}) copy-start(%all)
  %out = (f32[8,4]{1,0}, f32[8,4]{1,0:S(1)}, u32[]{:S(2)}) copy-start(%held)
  %held = f32[8,4]{1,0:S(1)} copy-done(%into)
  %some = ((bf16[24,64,128]{2,1,0}), bf16[64,128]{1,0:S(1)}, s32[]) slice-start(%stack)
  %one = ((bf16[24,64,128]{2,1,0}, s32[], s32[], s32[]), bf16[64,128]{1,0:T(8,128)S(1)}, s32[]) dynamic-slice-start(%stack, %n, %n, %n)
  %loose = bf16[1,64,128]{2,1,0} dynamic-slice(%stack, %n)
  %put_in = f32[24,32]{1,0} dynamic-update-slice(%rows, %new, %n)
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sliced", 2 * (64 * 128 + 32 * 128)),  # one layer's weights, the result
        ("stored", 4 * (32 + 32)),  # a row of the stack, the second result
        ("looked", 4 * (24 * 32 + 32 + 24)),  # all rows, with the new one among them
        ("whole", 4 * (32 + 32)),
        ("into", 4 * 32),  # from HBM to the chip's own memory: read once
        ("out", 4 * 32),
        ("some", 2 * 64 * 128),
        ("one", 2 * 64 * 128),
        ("loose", 2 * 2 * 64 * 128),
        ("put_in", 2 * 4 * 32),
    ],
)
def test_of_a_stack_the_piece_that_is_touched_counts(name, expected):
    program = Program(STACKS)
    (part,) = (part for part in program.parts["main"] if part.name == name)
    assert hbm_bytes(program, part) == expected


@pytest.mark.parametrize(
    "dtype",
    "bool int4 uint4 int8 uint8 int16 int32 uint32 int64 float8_e4m3fn float8_e5m2 "
    "float8_e4m3b11fnuz float8_e8m0fnu float4_e2m1fn bfloat16 float16 float32 float64 "
    "complex64".split(),
)
def test_every_kind_of_number_has_its_bytes(dtype):
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct((3, 4, 8), dtype)
        text = jax.jit(jnp.transpose).lower(x).as_text(dialect="hlo")
        bits = 8 if dtype == "bool" else jnp.finfo(dtype).bits if "fl" in dtype else 0
    shape = re.search(r"(\w+)\[3,4,8\]", text)
    if dtype.lstrip("u").startswith("int"):
        bits = int(dtype.rpartition("int")[2])
    bits = 64 if dtype == "complex64" else bits
    assert array_bytes(shape[1], "3,4,8") == 3 * 4 * 8 * bits // 8
    assert array_bytes(shape[1], "") == -(-bits // 8)


def test_an_array_of_eights_counts_and_one_of_unknown_numbers_is_named():
    line = "%r = KIND[32,8]{1,0} add(%a, %b)"
    for kind, size in (("f8e4m3fn", 256), ("s4", 128), ("u64", 2048)):
        given = f"%x = {kind}[32,8]{{1,0}} parameter(0)"
        text = line.replace("KIND", kind).replace("%a, %b", "%x, %x")
        program = Program(f"ENTRY %main () -> f32[] {{\n  {given}\n  {text}\n}}\n")
        assert hbm_bytes(program, only(program, "add")) == 3 * size
    with pytest.raises(ValueError, match="kind q7: add it to hlo.BITS"):
        array_bytes("q7", "2")
