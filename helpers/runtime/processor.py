"""What the processor can do that computes: this computer's own, or a GPU."""

import pathlib

import jax

CPUINFO = pathlib.Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # AMD since 2022, Intel since 2023


def multiplies_bfloat16() -> bool:
    """Whether JAX computes on a processor, or GPU, with instructions for bfloat16.

    With them a product of bfloat16s takes half the time of a float32 one; without them
    it takes longer. GPUs have them from compute capability 8 on (A100, L4; not T4).
    False where it cannot be told (only Linux says it in a file), and with jaxlib 0.7,
    which has no such product on processors.
    """
    if jax.default_backend() == "gpu":
        capability = getattr(jax.devices()[0], "compute_capability", "")
        major = str(capability).partition(".")[0]
        return major.isdigit() and int(major) >= 8  # AMD's have names
    if jax.default_backend() != "cpu" or jax.__version_info__ < (0, 8):
        return False
    if not CPUINFO.is_file():
        return False
    lines = CPUINFO.read_text("utf-8", errors="replace").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not INSTRUCTIONS.isdisjoint(flags.split())
