"""What an instruction of a compiled TPU program computes and moves, from its text.

A TPU's compiler writes every product of matrices as a convolution, whose `dim_labels`
say what each axis is: b batch, f features out of the left, i and o of the right, digits
are axes that the window walks over.
"""

import math
import re
from typing import NamedTuple

from helpers.tpu.hlo import KINDS, Part, Program, array_bytes

PIECES = frozenset("dynamic-slice gather slice".split())
COLLECTIVES = frozenset(f"{kind}-start" for kind in KINDS)


def sizes(shape: str) -> list[int]:
    """The axes of an array's shape, "bf16[8,128]{1,0}" -> [8, 128]."""
    found = re.search(r"\w+\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else []


def hbm_bytes(program: Program, part: Part) -> int:
    """Bytes that an instruction reads from HBM and writes to it, at least.

    Of an array that it only cuts a piece from, or puts a piece into, the piece counts:
    loops over layers hand on whole stacks.
    """
    given = [program.shapes.get(name, "") for name in part.operands]
    if part.opcode.endswith("-start") and part.opcode not in COLLECTIVES:
        to = _target(part)
        return to.in_hbm + to.bytes * any(x.in_hbm for x in map(_whole, given))
    body = program.body(part)
    if body:
        inside = [_parameter(body, i) for i in range(len(given))]
        read = sum(
            min(_whole(shape).in_hbm, _read(program, body, name))
            for shape, name in zip(given, inside, strict=True)
        )
        return read + _written(program, part, body)
    if part.opcode in PIECES:
        return 2 * _whole(part.shape).bytes
    if part.opcode == "dynamic-update-slice":
        return 2 * _whole(given[1]).bytes
    return sum(_whole(shape).in_hbm for shape in (part.shape, *given))


def _target(part):
    """The size of what an asynchronous copy makes.

    A copy's shape is (to, from, …); that of other starts (from, to, …), or
    ((from, indices, …), to, …) where they have more operands than one.
    """
    arrays = _arrays(part.shape)
    given = re.match(r"\(\((.*?)\),", part.shape)
    before = len(_arrays(given[1])) if given else part.opcode != "copy-start"
    return arrays[min(before, len(arrays) - 1)]


class _Size(NamedTuple):
    bytes: int
    in_hbm: int  # the same, or 0 if it lies in the chip's own memory


def _arrays(shape):
    """The sizes of an array, or of each array in a tuple."""
    found = []
    for kind, axes, layout in re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape):
        size = array_bytes(kind, axes)
        found.append(_Size(size, 0 if "S(" in layout else size))
    return found


def _whole(shape):
    arrays = _arrays(shape)
    return _Size(sum(x.bytes for x in arrays), sum(x.in_hbm for x in arrays))


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
        if name not in user.operands or user.opcode == "tuple":  # which only hands on
            continue
        first = user.operands[0] == name
        inner = program.body(user)
        if user.opcode == "bitcast" or user.opcode == "dynamic-update-slice" and first:
            total += _read(program, body, user.name)  # under its new name
        elif user.opcode in PIECES and first:
            total += _whole(user.shape).bytes
        elif inner:
            for number, given in enumerate(user.operands):
                if given == name:
                    total += _read(program, inner, _parameter(inner, number))
        else:
            return _whole(program.shapes[name]).bytes
    return total


def _written(program, part, body):
    """Bytes of a fusion's results in HBM: all, or the piece it puts into an array."""
    sizes = _pieces(program, body, body[-1])
    places = _arrays(part.shape)
    return sum(
        min(size, place.in_hbm) for size, place in zip(sizes, places, strict=False)
    )


def _pieces(program, body, part):
    """Bytes of each array of a result that are new."""
    named = {other.name: other for other in body}
    given = [named[name] for name in part.operands if name in named]
    if part.opcode == "tuple":
        return [size for one in given for size in _pieces(program, body, one)]
    if part.opcode == "bitcast" and given:
        return _pieces(program, body, given[0])
    if part.opcode == "dynamic-update-slice":
        return [_whole(program.shapes[part.operands[1]]).bytes]
    if inner := program.body(part):
        return _pieces(program, inner, inner[-1])
    return [size.bytes for size in _arrays(part.shape)]


def product_flops(shapes: dict[str, str], part: Part) -> float:
    """FLOPs of a convolution or a dot: two for each multiply-add that is not padding.

    Args:
      shapes: of all instructions, by name.
    """
    left, right = (sizes(shapes.get(name, "")) for name in part.operands[:2])
    out = sizes(part.shape)
    if part.opcode == "dot":
        summed = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", part.line)
        axes = [int(x) for x in summed[1].split(",") if x] if summed else []
        return 2 * math.prod(out) * math.prod(left[axis] for axis in axes)
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", part.line)
    if not labels or not left or not right:
        return 0
    window = re.search(r"window=\{([^}]*)\}", part.line)
    used = 1.0
    for axis, settings in enumerate(_window(window[1]) if window else ()):
        size = left[labels[1].index(str(axis))], out[labels[3].index(str(axis))]
        used *= _used(*size, **settings)
    return 2 * math.prod(out) * right[labels[2].index("i")] * used


def _window(text):
    """The settings of each axis that a window walks over."""
    given = dict(item.split("=") for item in text.split())
    count = len(given["size"].split("x"))

    def each(name, default):
        return given.get(name, "x".join([default] * count)).split("x")

    return [
        {
            "size": int(size),
            "stride": int(stride),
            "spread": int(spread),
            "step": int(step),
            "before": int(pad.partition("_")[0]),
        }
        for size, stride, spread, step, pad in zip(
            each("size", "1"),
            each("stride", "1"),
            each("lhs_dilate", "1"),
            each("rhs_dilate", "1"),
            each("pad", "0_0"),
            strict=True,
        )
    ]


def _used(into, outs, *, size, stride, spread, step, before):
    """Places of the window that meet a number, on average over the outputs."""
    span = (into - 1) * spread + 1
    starts = (
        out * stride + k * step - before for out in range(outs) for k in range(size)
    )
    met = sum(1 for at in starts if 0 <= at < span and at % spread == 0)
    return met / max(outs, 1)
