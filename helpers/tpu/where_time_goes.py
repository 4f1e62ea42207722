"""Where a compiled TPU program's time goes: by its compiler's estimates, and at least.

The optimised program names the compiler's estimate of cycles for most instructions.
Beside them stand the FLOPs and the bytes in HBM of each instruction, which give the
time that a chip needs at least. Neither is a measurement. Separate elementwise passes
are estimated too high, and asynchronous copies and Pallas kernels have no estimate at
all: what is known of the latter is their bound.
"""

import collections
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from helpers.tpu import hlo
from helpers.tpu.topology import Generation

# Instructions that take time even where the compiler writes no estimate for them.
WORK = frozenset(
    "all-gather all-reduce all-to-all async-start collective-permute convolution copy "
    "copy-start custom-call dynamic-slice dynamic-update-slice fusion gather "
    "reduce-scatter rng-bit-generator scatter slice-start sort".split()
)


class Instruction(NamedTuple):
    """One instruction of the program; numbers are those of all times it runs.

    Attributes:
      opcode: as in the program's text; for a call, what it calls.
      phase: "forward", "again" (computed again for the backward pass), "backward".
      kind: "product", "reduction", "move" or "elementwise".
      times: how often it runs.
      cycles: by the compiler; None where it has no estimate.
      flops: of its matmuls. bytes: of its operands and results in HBM.
    """

    opcode: str
    phase: str
    kind: str
    times: int
    cycles: int | None
    flops: float
    bytes: float


class Share(NamedTuple):
    """Some instructions together, in milliseconds and in what they compute and move.

    Attributes:
      label: what they have in common.
      modelled_ms: by the compiler's estimates.
      bound_ms: each instruction's FLOPs at the chip's peak or its bytes at the chip's
        bandwidth, whichever takes longer.
      tflop, gb: of matmuls, and to and from HBM.
    """

    label: str
    modelled_ms: float
    bound_ms: float
    tflop: float
    gb: float


def instructions(text: str) -> list[Instruction]:
    """What runs in a compiled program, loops' bodies as often as the loop runs.

    Args:
      text: of the optimised program, `compiled.as_text()`.
    """
    program, listed = hlo.Program(text), []
    for part, times in program.walk():
        cycles = hlo.estimate(part.line)
        reserves = 'custom_call_target="AllocateBuffer"' in part.line
        takes_time = part.opcode in WORK and not part.is_scalar and not reserves
        if part.opcode in hlo.FREE | hlo.LOOPS or cycles is None and not takes_time:
            continue
        matmuls = [one for one in program.inside(part) if one.opcode in hlo.MATMULS]
        flops = sum(hlo.matmul_flops(program.shapes, one) for one in matmuls)
        called = re.search(r'custom_call_target="([^"]*)"', part.line)
        listed.append(
            Instruction(
                opcode=called[1] if called else part.opcode,
                phase=_phase((matmuls[0] if matmuls else part).line),
                kind=hlo.kind(program, part),
                times=times,
                cycles=None if cycles is None else times * cycles,
                flops=times * (flops + hlo.kernel_flops(part.line)),
                bytes=times * hlo.hbm_bytes(program, part),
            )
        )
    return listed


def _phase(line: str) -> str:
    name = re.search(r'op_name="([^"]*)"', line)
    if not name:
        return ""
    if "rematted_computation" in name[1]:
        return "again"
    return "backward" if "transpose(jvp" in name[1] else "forward"


def shares(
    listed: Iterable[Instruction], chip: Generation, by: Callable[[Instruction], str]
) -> list[Share]:
    """Instructions summed up by what `by` calls them, the longest first.

    Those without an estimate count in `bound_ms` alone.
    """
    sums: dict[str, np.ndarray] = collections.defaultdict(lambda: np.zeros(4))
    for one in listed:
        modelled = (one.cycles or 0) / (chip.ghz * 1e6)
        bound = max(_least_ms(one, chip))
        sums[by(one)] += modelled, bound, one.flops / 1e12, one.bytes / 1e9
    rows = [Share(label, *total.tolist()) for label, total in sums.items()]
    return sorted(rows, key=lambda row: -max(row.modelled_ms, row.bound_ms))


def _least_ms(one: Instruction, chip: Generation) -> tuple[float, float]:
    """Milliseconds of its matmuls at the peak, and of its bytes at the bandwidth."""
    rates = chip.tflops / chip.devices * 1e9, chip.gbytes / chip.devices * 1e6
    return one.flops / rates[0], one.bytes / rates[1]


def roofline_ms(listed: Iterable[Instruction], chip: Generation) -> float:
    """What a device needs at least for what it computes and moves in this program.

    Instructions run one after another, each no faster than its matmuls at the peak or
    its bytes at the bandwidth. Copies that start early run beside them, but all bytes
    together are no faster than the bandwidth either.
    """
    in_turn = moved = 0.0
    for one in listed:
        compute, move = _least_ms(one, chip)
        moved += move
        in_turn += 0.0 if one.opcode.endswith("-start") else max(compute, move)
    return max(in_turn, moved)


def unpriced(listed: Iterable[Instruction]) -> dict[str, int]:
    """How often which instructions without an estimate run, by opcode."""
    counts = collections.Counter[str]()
    for one in listed:
        if one.cycles is None:
            counts[one.opcode] += one.times
    return dict(counts.most_common())
