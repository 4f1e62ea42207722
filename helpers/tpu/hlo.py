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
FLOPS_A_CYCLE = 2 * 4 * 128 * 128  # of v5e's four units
KINDS = "all-gather all-reduce reduce-scatter all-to-all collective-permute".split()
PIECES = frozenset("dynamic-slice gather slice".split())
MOVES = PIECES | frozenset(
    "broadcast concatenate copy dynamic-update-slice pad reverse reshape "
    "transpose".split()
)
FREE = frozenset("bitcast constant get-tuple-element iota parameter tuple".split())
LOOPS = frozenset("call conditional while".split())
MATMULS = frozenset({"convolution", "dot"})


class Part(NamedTuple):
    """One instruction: its name, result, operation, operands' names, and whole line."""

    name: str
    shape: str
    opcode: str
    operands: list[str]
    line: str


class Program:
    """The computations of a compiled program, and how often each one runs.

    Attributes:
      parts: instructions by the name of their computation.
      entry: the computation that the program begins with.
      shapes: of all instructions' results, by name.
    """

    def __init__(self, text: str):
        self.parts: dict[str, list[Part]] = {}
        self.entry, parts = "", []
        # A kernel's metadata breaks its line.
        text = re.sub(r"\{kernel_metadata=\{\n[^\n]*\n\}\}", "{}", text)
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                parts = self.parts[head[2]] = []
                self.entry = head[2] if head[1] else self.entry
            elif found := re.match(
                r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\(([^)]*)",
                line,
            ):
                name, shape, opcode, operands = found.groups()
                names = re.findall(r"%([\w.\-]+)", operands)
                parts.append(Part(name, shape, opcode, names, line))
        every = (part for parts in self.parts.values() for part in parts)
        self.shapes = {part.name: part.shape for part in every}

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
            line = part.line
            loop = re.search(r"condition=%?([\w.\-]+), body=%?([\w.\-]+)", line)
            if part.opcode == "while" and loop:
                yield from self.walk(loop[2], times * self._trips(loop[1]))
            if part.opcode == "conditional":
                found = re.search(r"branch_computations=\{([^}]*)\}", line)
                either = re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", line)
                branches = re.findall(r"[\w.\-]+", found[1]) if found else either
                yield from self.walk(max(branches, key=self._cycles), times)
            # A collective that overlaps with matmuls is cut into fusions: a start, some
            # matmuls that carry it, a done. The start contains it.
            if begun := re.search(r"%async-collective-start.* calls=%([\w.\-]+)", line):
                yield from self.walk(begun[1], times)

    def _trips(self, condition):
        """How often a loop runs: the largest constant its condition compares with."""
        text = "\n".join(part.line for part in self.parts.get(condition, ()))
        found = re.findall(r"s32\[\][^=]*constant\((\d+)\)", text)
        return max(map(int, found), default=1)

    def _cycles(self, name):
        return sum(
            times * (estimate(part.line) + kernel_flops(part.line) // FLOPS_A_CYCLE)
            for part, times in self.walk(name)
        )


def estimate(line: str) -> int:
    """Cycles of an instruction by the compiler's estimate; 0 where it has none."""
    found = re.search(r'"estimated_cycles":"(\d+)"', line)
    return int(found[1]) if found and int(found[1]) < UNKNOWN else 0


def modelled_cycles(text: str) -> int:
    """Cycles of a compiled program by the compiler's estimates, loops included."""
    return sum(times * estimate(part.line) for part, times in Program(text).walk())


def kernel_flops(line: str) -> int:
    """FLOPs of the course's splash attention kernel; 0 for other instructions.

    The model writes the number of query-key pairs beside the kernel, and their width,
    of which a unit multiplies 128 at a time, used or not. Forward it has two matmuls of
    all pairs, backward three for the queries, and four for keys and values.
    """
    found = re.search(r"/pairs_(\d+)_wide_(\d+)/.*/splash_\w+_(fwd|dq|dkv)_", line)
    if 'custom_call_target="tpu_custom_call"' not in line or not found:
        return 0
    matmuls = {"fwd": 2, "dq": 3, "dkv": 4}[found[3]]
    return 2 * matmuls * int(found[1]) * -(-int(found[2]) // 128) * 128


def collectives(text: str) -> dict[str, tuple[int, float]]:
    """{kind: (how many run, GiB that their results take on one chip)} of a program."""
    found: dict[str, tuple[int, float]] = {}
    for part, times in Program(text).walk():
        kind = part.opcode.removesuffix("-start")
        if kind not in KINDS:
            continue
        shapes = re.findall(r"(\w+)\[([\d,]*)\]", part.shape)
        if kind != part.opcode:  # asynchronous: (operands, results, scalars)
            shapes = [shape for shape in shapes if shape[1]]
            shapes = shapes[len(shapes) // 2 :]
        count, size = found.get(kind, (0, 0.0))
        size += times * sum(array_bytes(*shape) for shape in shapes) / GB
        found[kind] = (count + times, size)
    return found


def operation_kinds(text: str) -> dict[str, str]:
    """What the operations of a compiled program do, by name.

    Returns:
      "product" for matmuls, also as a part of a fusion; "move" for what computes no
      number; "loop", whose body is listed itself; or "rest".
    """
    program = Program(text)

    def opcodes(part):
        """What it is made of, fused operations included."""
        if re.match(r"\w+\[\]", part.shape):  # a scalar only says where a piece begins
            return {"constant"}
        called = re.search(r"(?:calls|to_apply)=%?([\w.\-]+)", part.line)
        if part.opcode in ("fusion", "call") and called and called[1] in program.parts:
            return {x for inner in program.parts[called[1]] for x in opcodes(inner)}
        if part.opcode == "custom-call" and re.search(
            'target="[^"]*(matmul|dot)', part.line
        ):
            return {"dot"}
        return {part.opcode}

    def kind(part):
        if part.opcode in LOOPS:
            return "loop"
        made_of = opcodes(part)
        if made_of & MATMULS:
            return "product"
        return "move" if made_of - FREE <= MOVES else "rest"

    return {part.name: kind(part) for parts in program.parts.values() for part in parts}


def array_bytes(kind: str, axes: str) -> int:
    """Bytes of an array: bf16[8,128] is ("bf16", "8,128"); tokens take none."""
    bits = re.search(r"\d+", kind.replace("pred", "8"))  # f8e4m3fn has 8, s4 has 4
    count = math.prod(int(x) for x in axes.split(",") if x)
    return math.ceil(int(bits[0]) * count / 8) if bits else 0


def _arrays(shape: str) -> list[tuple[int, int]]:
    """(bytes, bytes in HBM) of each array; the rest is in the chip's own memory."""
    found = []
    for kind, axes, layout in re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape):
        size = array_bytes(kind, axes)
        found.append((size, 0 if "S(" in layout else size))
    return found


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
    if (
        part.opcode.endswith("-start")
        and part.opcode.removesuffix("-start") not in KINDS
    ):
        # The shape of an asynchronous copy is (to, from, …). That of other starts is
        # (from, to, …), or ((from, indices, …), to, …).
        arrays = _arrays(part.shape)
        inner = re.match(r"\(\((.*?)\),", part.shape)
        before = len(_arrays(inner[1])) if inner else part.opcode != "copy-start"
        size, in_hbm = arrays[min(before, len(arrays) - 1)]
        return in_hbm + size * any(map(_in_hbm, operands))
    body = program.body(part)
    if body:
        read = sum(
            min(_in_hbm(shape), _read(program, body, _parameter(body, i)))
            for i, shape in enumerate(operands)
        )
        new = _new_bytes(program, body, body[-1])
        places = _arrays(part.shape)
        return read + sum(
            min(size, in_hbm) for size, (_, in_hbm) in zip(new, places, strict=False)
        )
    if part.opcode in PIECES:
        return 2 * _bytes(part.shape)
    if part.opcode == "dynamic-update-slice":
        return 2 * _bytes(operands[1])
    return sum(map(_in_hbm, (part.shape, *operands)))


def _parameter(body, number):
    """The name by which a computation calls its operand of this number."""
    for part in body:
        if part.opcode == "parameter" and f"parameter({number})" in part.line:
            return part.name
    return ""


def _read(program, body, name):
    """Bytes of an array that a computation reads: all, or the pieces it cuts."""
    total = 0
    for user in body:
        if name not in user.operands or user.opcode == "tuple":  # a tuple hands it on
            continue
        first = user.operands[0] == name
        inner = program.body(user)
        if user.opcode == "bitcast" or user.opcode == "dynamic-update-slice" and first:
            total += _read(program, body, user.name)  # under its new name
        elif user.opcode in PIECES and first:
            total += _bytes(user.shape)
        elif inner:
            for number, operand in enumerate(user.operands):
                if operand == name:
                    total += _read(program, inner, _parameter(inner, number))
        else:
            return _bytes(program.shapes[name])
    return total


def _new_bytes(program, body, part):
    """Bytes of each array of a result that are new: all, or the piece put into it."""
    by_name = {other.name: other for other in body}
    operands = [by_name[name] for name in part.operands if name in by_name]
    if part.opcode == "tuple":
        return [size for one in operands for size in _new_bytes(program, body, one)]
    if part.opcode == "bitcast" and operands:
        return _new_bytes(program, body, operands[0])
    if part.opcode == "dynamic-update-slice":
        return [_bytes(program.shapes[part.operands[1]])]
    if inner := program.body(part):
        return _new_bytes(program, inner, inner[-1])
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
    window = re.search(r"window=\{([^}]*)\}", part.line)
    for axis, settings in enumerate(_window(window[1]) if window else ()):
        size, stride, pad, lhs_dilate, rhs_dilate = settings
        inputs = left[labels[1].index(str(axis))]
        outputs = out[labels[3].index(str(axis))]
        places = (
            stride * np.arange(outputs)[:, None] + rhs_dilate * np.arange(size) - pad
        )
        used = (places >= 0) & (places <= (inputs - 1) * lhs_dilate)
        used &= places % lhs_dilate == 0
        flops *= int(used.sum()) / max(outputs, 1)
    return flops


def _window(text: str) -> Iterator[tuple[int, ...]]:
    """(size, stride, padding before, lhs and rhs dilation) of each axis of a window."""
    words = dict(item.split("=") for item in text.split())
    count = len(words["size"].split("x"))
    defaults = {"size": 1, "stride": 1, "pad": 0, "lhs_dilate": 1, "rhs_dilate": 1}
    columns = [
        [int(word.partition("_")[0]) for word in words[name].split("x")]
        if name in words
        else [default] * count
        for name, default in defaults.items()
    ]
    return zip(*columns, strict=True)


def _axes(shape: str) -> list[int]:
    """The axes of an array's shape, "bf16[8,128]{1,0}" -> [8, 128]."""
    found = re.search(r"\w+\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else []
