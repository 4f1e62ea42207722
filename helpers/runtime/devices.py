"""`jax.jit` for the programs a lesson waits for: updates and sampling; kept on disk.

On CPUs LLVM is told to optimise less (its level 1 in the place of 3): such programs are
compiled in four fifths of the time and run as fast, for most of their time goes into
matrix products, which come from a library. Accelerators have no part in this.
"""

import functools
import os
import pathlib

import jax

CPU_OPTIONS = {"xla_backend_optimization_level": 1}


def keep_programs(folder, least_seconds: float = 0.3) -> None:
    """Keeps compiled programs in a folder, where those of an earlier run are found.

    A second trainer of the same shapes, and a notebook that is run again, then start
    at once. Where JAX has been told of a folder (JAX_COMPILATION_CACHE_DIR), it stays.

    Args:
      folder: on this machine's own disk: programs are compiled for its processor.
      least_seconds: programs that were compiled sooner are not kept.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)


def cpu_options() -> dict[str, int]:
    """CPU_OPTIONS, but for those that the environment's XLA_FLAGS name themselves."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in CPU_OPTIONS.items() if name not in flags}


def jit(function, **settings):
    """`jax.jit(function, **settings)`, compiled as suits the devices of this process.

    Inside of another `jax.jit`, which decides how all of it is compiled, call the
    result's attribute `plain`: `jax.jit(function, **settings)` and nothing else.
    """
    plain = jax.jit(function, **settings)
    quick = jax.jit(function, compiler_options=cpu_options(), **settings)

    @functools.wraps(function)
    def run(*args, **kwargs):
        # Asked now and not when a module is imported: it starts the backend.
        return (quick if jax.default_backend() == "cpu" else plain)(*args, **kwargs)

    run.plain = plain  # type: ignore[attr-defined]
    return run


_OWN = jax.config.values["jax_default_matmul_precision"]  # the environment's, or None


def multiply_as_written(wanted: bool = True) -> None:
    """Has products of float32 computed in float32, from here on; False: as before.

    Nothing changes on CPUs, which do so anyway.
    """
    if jax.default_backend() != "cpu":
        value = "highest" if wanted else _OWN
        jax.config.update("jax_default_matmul_precision", value)


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
