"""What this computer's processor can do, where no accelerator does the work."""

import pathlib

import jax

CPUINFO = pathlib.Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # AMD since 2022, Intel since 2023


def multiplies_bfloat16() -> bool:
    """Whether JAX computes on a processor that has instructions for bfloat16.

    With them a product of bfloat16s takes half the time of a float32 one; without them
    it takes longer. False where it cannot be told (only Linux says it in a file), and
    with jaxlib 0.7, which has no such product.
    """
    if jax.default_backend() != "cpu" or jax.__version_info__ < (0, 8):
        return False
    if not CPUINFO.is_file():
        return False
    lines = CPUINFO.read_text("utf-8", errors="replace").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not INSTRUCTIONS.isdisjoint(flags.split())
