"""A compiled program's account of itself, on a small program of libtpu 0.0.42.

`layers.hlo` is for v5e: four layers `tanh(matmul(rms_norm(x), w))` of 512 tokens
and width 256 in bfloat16, each computed again for the gradient by the weights.
"""

import collections
import pathlib

import pytest

from helpers.tpu import GENERATIONS, hlo
from helpers.tpu.where_time_goes import (
    Instruction,
    instructions,
    roofline_ms,
    shares,
    unpriced,
)

TEXT = (pathlib.Path(__file__).parent / "programs" / "layers.hlo").read_text()
LAYERS, TOKENS, WIDTH = 4, 512, 256
V5E = GENERATIONS["v5e"]


def estimated():
    walk = hlo.Program(TEXT).walk()
    return sum(times * (hlo.estimate(part.line) or 0) for part, times in walk)


def test_every_estimated_cycle_is_in_the_account():
    assert sum(one.cycles or 0 for one in instructions(TEXT)) == estimated() > 0


def test_products_are_those_of_the_layers_in_each_phase():
    """Backward is two products a layer; what is computed again, as many as forward."""
    product, listed = LAYERS * 2 * TOKENS * WIDTH**2, collections.Counter()
    for one in instructions(TEXT):
        listed[one.phase] += one.flops
    assert listed["forward"] == listed["again"] == product
    assert listed["backward"] == 2 * product


def test_bytes_are_those_that_no_order_of_the_work_avoids():
    """Tokens once, weights forward and backward, their gradient once: the rest stays
    in memory on the chip."""
    weights = 2 * LAYERS * WIDTH**2
    moved = sum(one.bytes for one in instructions(TEXT))
    assert moved == pytest.approx(2 * TOKENS * WIDTH + 3 * weights, rel=1e-3)


@pytest.mark.parametrize("by", ["phase", "kind"])
def test_shares_add_up_to_the_whole_and_begin_with_the_dearest(by):
    listed = instructions(TEXT)
    rows = shares(listed, V5E, lambda one: getattr(one, by))
    (whole,) = shares(listed, V5E, lambda one: "all")
    for number in ("modelled_ms", "bound_ms", "tflop", "gb"):
        total = sum(getattr(row, number) for row in rows)
        assert total == pytest.approx(getattr(whole, number))
    dearest = [max(row.modelled_ms, row.bound_ms) for row in rows]
    assert dearest == sorted(dearest, reverse=True)
    assert whole.modelled_ms == pytest.approx(1e3 * estimated() / (V5E.ghz * 1e9))
    least = whole.tflop / V5E.tflops, whole.gb / V5E.gbytes
    assert 1e3 * max(least) <= whole.bound_ms <= 1e3 * sum(least)


def test_what_has_no_estimate_is_listed_and_what_does_nothing_is_not():
    assert unpriced(instructions(TEXT)) == {"copy-start": 2}
    call = (
        '  %k = f32[8,128]{1,0} custom-call(%x.1), custom_call_target="tpu_custom_call"'
    )
    head, _, rest = TEXT.partition("ENTRY ")
    first, _, rest = rest.partition("\n")
    listed = instructions(f"{head}ENTRY {first}\n{call}\n{rest}")
    assert unpriced(listed) == {"copy-start": 2, "tpu_custom_call": 1}


def of(opcode, compute_ms, move_ms, chip):
    """An instruction whose products and bytes take so long on a device of a chip."""
    flops = compute_ms * chip.tflops / chip.devices * 1e9
    moved = move_ms * chip.gbytes / chip.devices * 1e6
    return Instruction(opcode, "", "", 1, None, flops, moved)


@pytest.mark.parametrize("chip", [V5E, GENERATIONS["tpu7x"]], ids=lambda x: x.name)
def test_a_roofline_hides_early_copies_behind_other_work_and_no_further(chip):
    turns = [of("fusion", 2, 1, chip), of("fusion", 1, 3, chip)]
    assert roofline_ms(turns, chip) == pytest.approx(2 + 3)
    hidden = [*turns, of("copy-start", 0, 0.5, chip)]
    assert roofline_ms(hidden, chip) == pytest.approx(2 + 3)
    large = [*turns, of("copy-start", 0, 10, chip)]
    assert roofline_ms(large, chip) == pytest.approx(1 + 3 + 10)
