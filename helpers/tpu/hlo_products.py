"""What an instruction of a compiled TPU program computes and moves, from its text.

A TPU's compiler writes every product of matrices as a convolution, whose `dim_labels`
say what each axis is: b batch, f features out of the left, i and o of the right, digits
are axes that the window walks over.
"""

import math
import re

from helpers.tpu.hlo import BYTES, Part


def sizes(shape: str) -> list[int]:
    """The axes of an array's shape, "bf16[8,128]{1,0}" -> [8, 128]."""
    found = re.search(r"\w+\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else []


def hbm_bytes(shapes: dict[str, str], part: Part) -> float:
    """Bytes of an instruction's operands and results that lie in HBM.

    Args:
      shapes: of all instructions, by name.
    """
    operands = (shapes.get(name, "") for name in part.operands)
    return sum(map(_bytes, (part.shape, *operands)))


def _bytes(shape: str) -> int:
    total = 0
    for kind, axes, layout in re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape):
        if kind in BYTES and "S(1)" not in layout:  # S(1) is the chip's own memory
            total += BYTES[kind] * math.prod(int(x) for x in axes.split(",") if x)
    return total


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
