"""What a compiled program says of itself: cycles, collectives, kinds of operations.

Read from the text of the optimised program, in which a loop's body stands once: it is
counted as often as the loop runs.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

GB = 2**30


class Part(NamedTuple):
    """One instruction: its line, what it is, and the names of what it is given."""

    name: str
    shape: str
    opcode: str
    operands: list[str]
    line: str


def _part(line) -> Part | None:
    found = re.match(
        r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\(([^)]*)", line
    )
    if not found:
        return None
    name, shape, opcode, given = found.groups()
    return Part(name, shape, opcode, re.findall(r"%([\w.\-]+)", given), line)


class Program:
    """The computations of a compiled program's text, and how often each one runs."""

    def __init__(self, text):
        self.lines: dict[str, list[str]] = {}
        self.entry, name = "", None
        # What a kernel says of itself breaks its line.
        text = re.sub(r"\{kernel_metadata=\{\n[^\n]*\n\}\}", "{}", text)
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                name = head[2]
                self.lines[name] = []
                self.entry = name if head[1] else self.entry
            elif name is not None:
                self.lines[name].append(line)
        self.parts = {
            name: [part for part in map(_part, lines) if part]
            for name, lines in self.lines.items()
        }
        parts = (part for parts in self.parts.values() for part in parts)
        self.shapes = {part.name: part.shape for part in parts}

    def instruction(self, line) -> Part | None:
        """What a line says, or None if it is no instruction."""
        return _part(line)

    def body(self, part: Part) -> list[Part]:
        """The instructions that a fusion is made of; none of others."""
        called = re.search(r" calls=%?([\w.\-]+)", part.line)
        return self.parts.get(called[1], []) if called else []

    def inside(self, part: Part) -> Iterator[Part]:
        """An instruction, and those that it is made of, fusions in it opened."""
        yield part
        for inner in self.body(part):
            yield from self.inside(inner)

    def trips(self, condition):
        """How often a loop runs: the largest constant its condition compares with."""
        text = "\n".join(self.lines.get(condition, ()))
        found = re.findall(r"s32\[\][^=]*constant\((\d+)\)", text)
        return max(map(int, found), default=1)

    def walk(self, name=None, times=1):
        """(line, how often it runs) of the program, loops' bodies included.

        Of the branches of a condition the dearest is taken, every time.
        """
        for line in self.lines[name or self.entry]:
            yield line, times
            loop = re.search(
                r" while\(.*condition=%?([\w.\-]+), body=%?([\w.\-]+)", line
            )
            if loop:
                yield from self.walk(loop[2], times * self.trips(loop[1]))
            if " conditional(" in line:
                branches = _branches(line)
                yield from self.walk(max(branches, key=self.cycles), times)
            # Overlapped with products, a collective is cut into fusions: a start, some
            # products that carry it, a done. The start alone is followed.
            if begun := re.search(r"%async-collective-start.* calls=%([\w.\-]+)", line):
                yield from self.walk(begun[1], times)

    def cycles(self, name):
        """What a computation takes, roughly: the compiler's estimates, and kernels."""
        walk = self.walk(name)
        return sum(
            n * (estimate(x) + kernel_flops(x) // FLOPS_A_CYCLE) for x, n in walk
        )


def _branches(line):
    """The computations of a conditional, of which one runs."""
    found = re.search(r"branch_computations=\{([^}]*)\}", line)
    if found:
        return re.findall(r"[\w.\-]+", found[1])
    return re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", line)


UNKNOWN = 1 << 62  # what the compiler writes where it has no estimate, or more
FLOPS_A_CYCLE = 2 * 4 * 128 * 128  # of v5e's four units


def estimate(line: str) -> int:
    """Cycles of an instruction as the compiler reckons, 0 where it does not."""
    found = re.search(r'"estimated_cycles":"(\d+)"', line)
    return int(found[1]) if found and int(found[1]) < UNKNOWN else 0


def kernel_flops(line: str) -> int:
    """FLOPs of a splash attention kernel of the course, 0 of another instruction.

    `model.long_attention` writes the pairs of query and key that it looks at beside it,
    and their width, of which a unit multiplies 128 at a time, used or not. Forward it
    has two products of each pair, backward three for queries, and four for keys and
    values.
    """
    told = re.search(r"/pairs_(\d+)_wide_(\d+)/.*/splash_\w+_(fwd|dq|dkv)_", line)
    if 'custom_call_target="tpu_custom_call"' not in line or not told:
        return 0
    products = {"fwd": 2, "dq": 3, "dkv": 4}[told[3]]
    return 2 * products * int(told[1]) * -(-int(told[2]) // 128) * 128


def modelled_cycles(text: str) -> int:
    """Cycles of a compiled program by the compiler's own estimates, loops included."""
    return sum(times * estimate(line) for line, times in Program(text).walk())


KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
# Of a number, by its kind; smaller ones than a byte share it.
BITS = {"pred": 8, "bf16": 16, "c64": 64, "c128": 128, "token": 0, "opaque": 0}
BITS |= {
    f"{letter}{bits}": bits for letter in "su" for bits in (1, 2, 4, 8, 16, 32, 64)
}
BITS |= {f"f{bits}": bits for bits in (16, 32, 64)}


def array_bytes(kind: str, axes: str) -> int:
    """Bytes of an array, bf16[8,128] being ("bf16", "8,128").

    Raises:
      ValueError: its numbers are of a kind that is not known.
    """
    small = re.match(r"f([48])e", kind)  # f8e4m3fn and its likes
    bits = int(small[1]) if small else BITS.get(kind)
    if bits is None:
        raise ValueError(f"A program has numbers of kind {kind}: add it to hlo.BITS.")
    return math.ceil(bits * math.prod(int(x) for x in axes.split(",") if x) / 8)


def collectives(text: str) -> dict:
    """{kind: (how many run, GiB their results hold on one chip)} of a program."""
    found: dict = {}
    for line, times in Program(text).walk():
        match = re.search(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\(", line)
        if not match:
            continue
        count, size = found.get(match[2], (0, 0.0))
        shapes = re.findall(r"(\w+)\[([\d,]*)\]", match[1])
        if match[3]:  # asynchronous: (operands, results, scalars of its own)
            shapes = [shape for shape in shapes if shape[1]]
            shapes = shapes[len(shapes) // 2 :]
        size += times * sum(array_bytes(kind, axes) for kind, axes in shapes) / GB
        found[match[2]] = (count + times, size)
    return found


MOVES = frozenset(
    "broadcast concatenate copy dynamic-slice dynamic-update-slice gather pad reverse "
    "reshape slice transpose".split()
)
FREE = frozenset("bitcast constant get-tuple-element iota parameter tuple".split())
LOOPS = frozenset("call conditional while".split())


def operation_kinds(text: str) -> dict[str, str]:
    """What the operations of a compiled program do, by name.

    Args:
      text: of the optimised program.
    Returns:
      "product" of matrices, also as a part of a fusion; "move", which computes no
      number; "loop", whose body is listed itself; or "rest".
    """
    bodies: dict[str, list[tuple[str, str, str]]] = {}
    body: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        if head := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
            body = bodies[head[1]] = []
        elif found := re.match(
            r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)", line
        ):
            name, shape, opcode, after = found.groups()
            called = re.search(r"(?:calls|to_apply)=%?([\w.\-]+)", after)
            # Numbers without an axis only say where a piece begins.
            opcode = "constant" if re.match(r"\w+\[\]", shape) else opcode
            if opcode == "custom-call" and re.search(
                'target="[^"]*(matmul|dot)', after
            ):
                opcode = "dot"
            body.append((name, opcode, called[1] if called else ""))

    def opcodes(opcode, called):
        """What it is made of, fused operations included."""
        if opcode in ("fusion", "call") and called in bodies:
            return {x for _, *made in bodies[called] for x in opcodes(*made)}
        return {opcode}

    return {
        name: _kind(opcode, opcodes(opcode, called))
        for body in bodies.values()
        for name, opcode, called in body
    }


def _kind(opcode, made_of):
    if opcode in LOOPS:
        return "loop"
    if made_of & {"dot", "convolution"}:
        return "product"
    return "move" if made_of - FREE <= MOVES else "rest"


def out_of_memory(message: str) -> str:
    """The compiler's complaint in three lines: how much too much, what is largest."""
    need = re.search(r"(?:Used|required[^()]*\()\s*([\d.]+[KMGT])", message)
    have = re.search(r"(?:of|exceeds available HBM \()\s*([\d.]+[KMGT])", message)
    largest = re.findall(r"Size: ([\d.]+[KMGT]).*?\n(?:.*\n)*?.*?Shape: (\S+)", message)
    lines = [
        f"Does not fit: needs {need[1] if need else 'more'} of "
        f"{have[1] if have else 'the'} HBM on a chip."
    ]
    if largest:
        shown = ", ".join(f"{size} {shape}" for size, shape in largest[:3])
        lines.append(f"Largest buffers: {shown}.")
    lines.append(
        "Fewer prompts or shorter answers a step, more `accumulate` pieces, a smaller "
        "token chunk, LoRA or an int8 base make it smaller; more chips share it."
    )
    return "\n".join(lines)
