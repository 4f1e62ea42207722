"""A compiled program, read from its text: what runs how often, computes and moves.

In the text of the optimised program a loop's body stands once; here it counts as often
as the loop runs. A TPU's compiler writes every matmul as a convolution.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

GB = 2**30
UNKNOWN = 1 << 62  # what the compiler writes where it has no estimate, or more
COLLECTIVES = (
    "all-gather all-reduce reduce-scatter all-to-all collective-permute".split()
)
PIECES = frozenset("dynamic-slice gather slice".split())
MOVES = PIECES | frozenset(
    "broadcast concatenate convert copy dynamic-update-slice fusion pad reshape "
    "reverse select transpose".split()
)
FREE = frozenset("bitcast constant get-tuple-element iota parameter tuple".split())
LOOPS = frozenset("call conditional while".split())
SAME = {("bitcast", 0), ("dynamic-update-slice", 0)}  # operands under another name
MATMULS = frozenset({"convolution", "dot"})


class Part(NamedTuple):
    """One instruction: its name, result, operation, operands' names, and whole line."""

    name: str
    shape: str
    opcode: str
    operands: list[str]
    line: str

    @property
    def is_scalar(self) -> bool:
        """Whether the result is one number, such as a place in an array."""
        return re.match(r"\w+\[\]", self.shape) is not None


class Program:
    """The computations of a compiled program, and how often each one runs.

    Attributes:
      parts: instructions by the name of their computation.
      entry: the computation that the program begins with.
      named: all instructions by their names.
      shapes: results of all instructions. That of an asynchronous start is its `-done`.
    """

    def __init__(self, text: str):
        self.parts: dict[str, list[Part]] = {}
        # A kernel's metadata breaks its line.
        text = re.sub(r"\{kernel_metadata=\{\n[^\n]*\n\}\}", "{}", text)
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                parts = self.parts[head[2]] = []
                self.entry = head[2]  # the last one, which the program begins with
            elif match := re.match(
                r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\(([^)]*)",
                line,
            ):
                name, shape, opcode, operands = match.groups()
                names = re.findall(r"%([\w.\-]+)", operands)
                parts.append(Part(name, shape, opcode, names, line))
        every = [part for parts in self.parts.values() for part in parts]
        self.named = {part.name: part for part in every}
        done = {x.operands[0]: x.shape for x in every if x.opcode.endswith("-done")}
        self.shapes = {part.name: part.shape for part in every} | done

    def body(self, part: Part) -> list[Part]:
        """The instructions that a fusion is made of; none for others."""
        called = re.search(r" calls=%?([\w.\-]+)", part.line)
        return self.parts.get(called[1], []) if called else []

    def inside(self, part: Part) -> Iterator[Part]:
        """An instruction and all that it is made of, nested fusions included."""
        yield part
        for inner in self.body(part):
            yield from self.inside(inner)

    def walk(self, name: str = "", times: int = 1) -> Iterator[tuple[Part, int]]:
        """(instruction, how often it runs) of the program, loops' bodies included.

        Of the branches of a condition the one with most cycles counts, every time.
        """
        for part in self.parts[name or self.entry]:
            yield part, times
            loop = re.search(r"condition=%?([\w.\-]+), body=%?([\w.\-]+)", part.line)
            if loop:
                yield from self.walk(loop[2], times * self._trips(loop[1]))
            if part.opcode == "conditional":
                names = re.findall(r"%([\w.\-]+)", part.line)
                branches = [name for name in names if name in self.parts]
                yield from self.walk(max(branches, key=self._cycles), times)
            # A collective that overlaps with matmuls is cut into fusions: a start, some
            # matmuls that carry it, a done. The start contains it.
            if part.name.startswith("async-collective-start"):
                for inner in self.body(part):
                    yield inner, times

    def _trips(self, condition):
        """How often a loop runs: the largest constant its condition compares with."""
        text = "\n".join(part.line for part in self.parts[condition])
        numbers = re.findall(r"s32\[\][^=]*constant\((\d+)\)", text)
        return max(map(int, numbers), default=1)

    def _cycles(self, name):
        return sum(n * (estimate(part.line) or 0) for part, n in self.walk(name))


def estimate(line: str) -> int | None:
    """Cycles of an instruction by the compiler's estimate; None where it has none."""
    match = re.search(r'"estimated_cycles":"(\d+)"', line)
    return int(match[1]) if match and int(match[1]) < UNKNOWN else None


def kernel_flops(line: str) -> int:
    """FLOPs of the course's splash attention kernel; 0 for other instructions.

    The model writes the number of query-key pairs beside the kernel, and their width,
    of which a unit multiplies 128 at a time, used or not. Forward it has two matmuls of
    all pairs, backward three for the queries, and four for keys and values.
    """
    match = re.search(r"/pairs_(\d+)_wide_(\d+)/.*/splash_\w+_(fwd|dq|dkv)_", line)
    if 'custom_call_target="tpu_custom_call"' not in line or not match:
        return 0
    matmuls = {"fwd": 2, "dq": 3, "dkv": 4}[match[3]]
    return 2 * matmuls * int(match[1]) * -(-int(match[2]) // 128) * 128


def collectives(text: str) -> dict[str, tuple[int, float]]:
    """{kind: (how many run, GiB that their results take on one chip)} of a program."""
    program = Program(text)
    totals: dict[str, tuple[int, float]] = {}
    for part, times in program.walk():
        kind = part.opcode.removesuffix("-start")
        if kind in COLLECTIVES:
            count, size = totals.get(kind, (0, 0.0))
            size += times * _bytes(program.shapes[part.name]) / GB
            totals[kind] = count + times, size
    return totals


def kind(program: Program, part: Part) -> str:
    """What an instruction does, with all that is fused in it.

    Returns:
      "product" for matmuls, "reduction", "move" for what computes no number, or
      "elementwise".
    """
    inside = list(program.inside(part))
    opcodes = {one.opcode for one in inside}
    if opcodes & MATMULS:
        return "product"
    if opcodes & {"reduce", "reduce-window"}:
        return "reduction"
    # A scalar only says where a piece begins.
    arrays = {one.opcode for one in inside if not one.is_scalar}
    return "move" if arrays <= MOVES | FREE else "elementwise"


def array_bytes(kind: str, axes: str) -> int:
    """Bytes of an array: bf16[8,128] is ("bf16", "8,128"); tokens take none."""
    bits = re.search(r"\d+", kind.replace("pred", "8"))  # f8e4m3fn has 8, s4 has 4
    count = math.prod(int(x) for x in axes.split(",") if x)
    return math.ceil(int(bits[0]) * count / 8) if bits else 0


def _arrays(shape: str) -> list[tuple[int, int]]:
    """(bytes, bytes in HBM) of each array; the rest is in memory on the chip itself."""
    arrays = re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape)
    sizes = [(array_bytes(kind, axes), layout) for kind, axes, layout in arrays]
    return [(size, 0 if "S(" in layout else size) for size, layout in sizes]


def _bytes(shape: str) -> int:
    return sum(size for size, _ in _arrays(shape))


def _in_hbm(shape: str) -> int:
    return sum(size for _, size in _arrays(shape))


def hbm_bytes(program: Program, part: Part) -> int:
    """Bytes that an instruction reads from HBM and writes to it, at least.

    Loops over layers hand on whole stacks. So where only a piece of an array is read or
    replaced, only the piece counts.
    """
    operands = [program.shapes.get(name, "") for name in part.operands]
    result, kind = program.shapes[part.name], part.opcode.removesuffix("-start")
    if kind != part.opcode and kind not in COLLECTIVES:  # a copy beside other work
        return _in_hbm(result) + _bytes(result) * any(map(_in_hbm, operands))
    if body := program.body(part):
        read = [
            min(_in_hbm(shape), _read(program, body, i))
            for i, shape in enumerate(operands)
        ]
        new, in_hbm = _new_bytes(program, body[-1]), [x for _, x in _arrays(part.shape)]
        return sum(read) + sum(map(min, new, in_hbm))
    if part.opcode in PIECES:
        return 2 * _bytes(part.shape)
    if part.opcode == "dynamic-update-slice":
        return 2 * _bytes(operands[1])
    return sum(map(_in_hbm, (part.shape, *operands)))


def _read(program, body, number):
    """Bytes of an operand that a computation reads: the pieces it cuts, or no limit."""
    total = 0
    names = {part.name for part in body if f"parameter({number})" in part.line}
    for user in body:
        for i in [i for i, name in enumerate(user.operands) if name in names]:
            if (user.opcode, i) in SAME:
                names.add(user.name)
            elif user.opcode in PIECES and i == 0:
                total += _bytes(user.shape)
            elif inner := program.body(user):
                total += _read(program, inner, i)
            elif user.opcode != "tuple":  # which hands it on
                return math.inf
    return total


def _new_bytes(program, part):
    """Bytes of each array of a result that are new: all, or the piece put into it."""
    operands = [program.named[name] for name in part.operands if name in program.named]
    if part.opcode in ("bitcast", "tuple"):
        return [size for one in operands for size in _new_bytes(program, one)]
    if part.opcode == "dynamic-update-slice":
        return [_bytes(operands[1].shape)]
    if inner := program.body(part):
        return _new_bytes(program, inner[-1])
    return [size for size, _ in _arrays(part.shape)]


def matmul_flops(shapes: dict[str, str], part: Part) -> float:
    """FLOPs of a convolution or a dot: two for each multiply-add that is not padding.

    A convolution's `dim_labels` name each axis: b is the batch, f the features of the
    left, i and o those of the right, digits are axes that the window walks over.

    Args:
      shapes: of all instructions, by name.
    """
    left, right = (_axes(shapes.get(name, "")) for name in part.operands[:2])
    out = _axes(part.shape)
    if part.opcode == "dot":
        summed = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", part.line)
        axes = [int(x) for x in summed[1].split(",") if x] if summed else []
        return 2 * math.prod(out) * math.prod(left[axis] for axis in axes)
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", part.line)
    if not labels or not left or not right:
        return 0
    flops = 2.0 * math.prod(out) * right[labels[2].index("i")]

    def setting(name, axis, default=1):
        """That of one axis of the window; of padding, "1_2x0_0", the numbers before."""
        match = re.search(rf"window=\{{[^}}]*\b{name}=([-\dx_]+)", part.line)
        return int(match[1].split("x")[axis].split("_")[0]) if match else default

    for axis in range(len(labels[1]) - 2):
        inputs = left[labels[1].index(str(axis))]
        outputs = out[labels[3].index(str(axis))]
        spread = setting("lhs_dilate", axis)
        place = setting("stride", axis) * np.arange(outputs)[:, None]
        place = place + setting("rhs_dilate", axis) * np.arange(setting("size", axis))
        place = place - setting("pad", axis, 0)
        used = (place >= 0) & (place <= (inputs - 1) * spread) & (place % spread == 0)
        flops *= int(used.sum()) / max(outputs, 1)
    return flops


def _axes(shape: str) -> list[int]:
    """The axes of an array's shape, "bf16[8,128]{1,0}" -> [8, 128]."""
    match = re.search(r"\w+\[([\d,]*)\]", shape)
    return [int(size) for size in match[1].split(",") if size] if match else []
