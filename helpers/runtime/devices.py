"""How programs are compiled, and how exactly an accelerator multiplies.

On CPUs LLVM optimises at its level 1 instead of 3. Updates and sampling then compile in
four fifths of the time and run as fast, because most of their time goes into matrix
products, which come from a library. Accelerators are not affected.
"""

import functools
import os
import pathlib

import jax

CPU_OPTIONS = {"xla_backend_optimization_level": 1}


def keep_programs(folder, least_seconds: float = 0.3) -> None:
    """Stores compiled programs in a folder, and reuses those of an earlier run.

    A second trainer of the same shapes, and a notebook that is run again, then start
    at once. A folder in JAX_COMPILATION_CACHE_DIR goes before this one.

    Args:
      folder: on this machine's disk, because programs are compiled for its processor.
      least_seconds: programs that compile faster are not stored.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)


def cpu_options() -> dict[str, int]:
    """CPU_OPTIONS without those that XLA_FLAGS in the environment set."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in CPU_OPTIONS.items() if name not in flags}


def jit(function, **settings):
    """`jax.jit(function, **settings)`, compiled with `cpu_options` on a CPU.

    Inside another `jax.jit`, whose options decide, call the result's attribute `plain`:
    `jax.jit(function, **settings)` and nothing else.
    """
    plain = jax.jit(function, **settings)
    quick = jax.jit(function, compiler_options=cpu_options(), **settings)

    @functools.wraps(function)
    def run(*args, **kwargs):
        # Looked up here and not at import, because it starts the backend.
        return (quick if jax.default_backend() == "cpu" else plain)(*args, **kwargs)

    run.plain = plain  # type: ignore[attr-defined]
    return run


_PRECISION = jax.config.values[
    "jax_default_matmul_precision"
]  # the environment's, or None


def multiply_as_written(wanted: bool = True) -> None:
    """Computes products of float32 in float32 from here on; False undoes it.

    TPUs and newer GPUs round the factors to bfloat16 or TF32 otherwise, which is too
    coarse for a lesson's small model. Real weights are bfloat16 anyway. CPUs always
    compute in float32.
    """
    if jax.default_backend() != "cpu":
        value = "highest" if wanted else _PRECISION
        jax.config.update("jax_default_matmul_precision", value)


CPUINFO = pathlib.Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # AMD since 2022, Intel since 2023


def multiplies_bfloat16() -> bool:
    """Whether this processor or GPU has instructions for bfloat16 products.

    With them a product of bfloat16s takes half the time of a float32 one; without them
    it takes longer. GPUs have them from compute capability 8 on (A100, L4; not T4).
    False where it is unknown (only Linux lists them in a file), and with jaxlib 0.7,
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
