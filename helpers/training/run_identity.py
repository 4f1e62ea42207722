"""What makes two runs the same run, as text: settings, code and starting weights.

A folder is only resumed by the run that made it. Otherwise a changed reward, teacher or
optimizer would silently return the old run's numbers.
"""

import functools
import zlib

import jax
import numpy as np

from helpers.runtime.processes import whole

PLAIN = (int, float, str, type(None))


def describe(thing) -> str:
    """A function by name, with the settings it holds and a checksum of its code.

    What it calls is not looked at. The text is the same in every process.
    """
    if isinstance(thing, functools.partial):
        held = {"of": thing.func, **thing.keywords}
    elif isinstance(thing, PLAIN):
        return repr(thing)
    elif isinstance(thing, (tuple, list)):
        return f"[{', '.join(map(describe, thing))}]"
    elif isinstance(thing, dict):
        held = thing
    elif not callable(thing):
        return type(thing).__name__
    else:
        cells = getattr(thing, "__closure__", None) or ()
        names = thing.__code__.co_freevars if cells else ()
        held = {n: c.cell_contents for n, c in zip(names, cells, strict=True)}
    settings = ", ".join(f"{name}={describe(value)}" for name, value in held.items())
    name = getattr(thing, "__qualname__", type(thing).__name__).split(".")[0]
    code = getattr(thing, "__code__", None)
    return f"{name}{f'#{code_checksum(code):08x}' if code else ''}({settings})"


def code_checksum(code) -> int:
    """CRC-32 of a function: its code and constants, not its file, lines or comments."""
    constants = [
        code_checksum(constant) if hasattr(constant, "co_code") else repr(constant)
        for constant in code.co_consts
    ]
    content = (code.co_code.hex(), code.co_names, code.co_varnames, constants)
    return zlib.crc32(repr(content).encode())


def fingerprint(tree) -> str:
    """CRC-32 of all the numbers of a tree of arrays, wherever they lie."""
    crc = 0
    for leaf in jax.tree.leaves(tree):
        crc = zlib.crc32(np.ascontiguousarray(whole(leaf)).view(np.uint8), crc)
    return f"{crc:08x}"
