"""Where a compiled TPU program's time goes, as its compiler reckons, and at least.

The optimised program names, for most instructions, the cycles that the compiler reckons
with and the line of Python they come from. Beside them stand the FLOPs and the bytes in
HBM of the instruction itself: what a chip needs at least. Neither is a measurement:
separate elementwise passes are priced too high, and asynchronous copies and calls of
Pallas kernels have no price at all (`kernels_ms` is what the latter take at least).
"""

import collections
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

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
      name, opcode: as in the program's text; for a call, what it calls.
      place: the innermost function of the course it comes from: "attention.attend".
      phase: "forward", "again" (computed again for the backward pass), "backward".
      kind: "product", "reduction", "move" or "elementwise".
      times: how often it runs.
      cycles: as the compiler reckons; None where it has no estimate.
      flops: of its products. bytes: of its operands and results in HBM.
    """

    name: str
    opcode: str
    place: str
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
        bandwidth, whichever takes longer: no chip is faster.
      tflop, gb: of products, and to and from HBM.
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
    program, frames, found = hlo.Program(text), _Frames(text), []
    for part, times in program.walk():
        line = part.line
        if part.opcode in hlo.FREE | hlo.LOOPS:
            continue
        cycles = hlo.estimate(line)
        priced = cycles or '"estimated_cycles":"0"' in line
        if not priced and not _takes_time(part):
            continue
        inside = list(program.inside(part))
        matmuls = [one for one in inside if one.opcode in hlo.MATMULS]
        flops = sum(hlo.matmul_flops(program.shapes, one) for one in matmuls)
        source = (matmuls[0] if matmuls else part).line
        called = re.search(r'custom_call_target="([^"]*)"', line)
        found.append(
            Instruction(
                name=part.name,
                opcode=called[1] if called else part.opcode,
                place=frames.place(source),
                phase=_phase(source),
                kind=_kind({one.opcode for one in inside}),
                times=times,
                cycles=times * cycles if priced else None,
                flops=times * (flops + hlo.kernel_flops(line)),
                bytes=times * hlo.hbm_bytes(program, part),
            )
        )
    return found


def _takes_time(part: hlo.Part) -> bool:
    """Whether an instruction takes time, though the compiler has no estimate for it."""
    is_scalar = part.shape.partition("{")[0].endswith("[]")
    reserves = 'custom_call_target="AllocateBuffer"' in part.line
    return part.opcode in WORK and not is_scalar and not reserves


def _kind(opcodes: set[str]) -> str:
    if opcodes & hlo.MATMULS:
        return "product"
    if opcodes & {"reduce", "reduce-window"}:
        return "reduction"
    moves = hlo.MOVES | hlo.FREE | {"convert", "fusion", "select"}
    return "move" if opcodes <= moves else "elementwise"


def _phase(line: str) -> str:
    name = re.search(r'op_name="([^"]*)"', line)
    if not name:
        return ""
    if "rematted_computation" in name[1]:
        return "again"
    return "backward" if "transpose(jvp" in name[1] else "forward"


class _Frames:
    """The tables of a program's text that lead from an instruction to Python."""

    def __init__(self, text: str):
        self.rows: dict[str, dict[int, str]] = collections.defaultdict(dict)
        table = ""
        for line in text.splitlines():
            if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                table = line
            elif table and (row := re.match(r"(\d+) (.*)", line)):
                self.rows[table][int(row[1])] = row[2]
            else:
                table = ""

    def place(self, line: str) -> str:
        """The innermost function of `helpers` that made an instruction, or ""."""
        frame = _number("stack_frame_id", line)
        while frame in self.rows["StackFrames"]:
            row = self.rows["StackFrames"][frame]
            at = self.rows["FileLocations"].get(_number("file_location_id", row), "")
            file = self.rows["FileNames"].get(_number("file_name_id", at), "")
            if "/helpers/" in file and "/helpers/tpu/" not in file:
                name = self.rows["FunctionNames"][_number("function_name_id", at)]
                stem = file.strip('"').rpartition("/")[2].removesuffix(".py")
                return f"{stem}.{name.strip(chr(34)).partition('.<locals>')[0]}"
            # Callers come before what they call, and are numbered from one more.
            frame = _number("parent_frame_id", row) - 1
        return ""


def _number(name: str, text: str) -> int:
    found = re.search(rf"{name}=(\d+)", text)
    return int(found[1]) if found else 0


def shares(
    found: Iterable[Instruction],
    chip: Generation,
    by: Callable[[Instruction], str] = lambda one: one.place or "elsewhere",
) -> list[Share]:
    """Instructions summed up by what `by` calls them, the dearest first.

    What the compiler has no estimate for counts in `bound_ms` alone.

    Args:
      chip: its peak, bandwidth and clock.
    """
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0.0] * 4)
    for one in found:
        modelled = (one.cycles or 0) / (chip.ghz * 1e6)
        added = modelled, max(_least_ms(one, chip)), one.flops / 1e12, one.bytes / 1e9
        total = sums[by(one)]
        for i, x in enumerate(added):
            total[i] += x
    rows = [Share(label, *total) for label, total in sums.items()]
    return sorted(rows, key=lambda row: -max(row.modelled_ms, row.bound_ms))


def _least_ms(one: Instruction, chip: Generation) -> tuple[float, float]:
    """Milliseconds of its products at the peak, and of its bytes at the bandwidth."""
    rates = chip.tflops / chip.devices * 1e9, chip.gbytes / chip.devices * 1e6
    return one.flops / rates[0], one.bytes / rates[1]


def roofline_ms(found: Iterable[Instruction], chip: Generation) -> float:
    """What a device needs at least, given what it computes and moves in this program.

    Instructions run one after another, each no faster than its products at the peak or
    its bytes at the bandwidth. Copies that start early run beside them; but with them
    all bytes together are no faster than the bandwidth either.
    """
    in_turn = moved = 0.0
    for one in found:
        compute, move = _least_ms(one, chip)
        moved += move
        in_turn += 0.0 if one.opcode.endswith("-start") else max(compute, move)
    return max(in_turn, moved)


def kernels_ms(found: Iterable[Instruction], chip: Generation) -> float:
    """What kernels of Pallas take at least, for which the compiler has no estimate."""
    kernels = (one for one in found if one.opcode == "tpu_custom_call")
    return sum(max(_least_ms(one, chip)) for one in kernels)


def unpriced(found: Iterable[Instruction]) -> dict[str, int]:
    """How often which instructions without an estimate run, by opcode."""
    counts = collections.Counter[str]()
    for one in found:
        if one.cycles is None:
            counts[one.opcode] += one.times
    return dict(counts.most_common())
