"""How programs are compiled and stored, and how exactly they multiply."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from helpers.runtime import platform

KEEPS = """
import sys
import jax, jax.numpy as jnp
from helpers.runtime.platform import jit, keep_programs
jnp.ones(3).sum()  # JAX has compiled something before
keep_programs(sys.argv[1], least_seconds=0.0)
def heavy(x):
    return jnp.sort(jnp.tanh(x @ x))
print(jit(heavy)(jnp.ones((8, 8))).sum())
"""


def gram(x):
    return jnp.tanh(x @ x.T).sum(axis=0)


def test_a_cpu_optimises_less_and_another_device_as_usual(monkeypatch):
    compiled = []
    monkeypatch.delenv("XLA_FLAGS", raising=False)

    def fake(function, **settings):
        return lambda *args: compiled.append(settings.get("compiler_options"))

    monkeypatch.setattr(jax, "jit", fake)
    program = platform.jit(gram)
    for backend in "cpu", "tpu":
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        program(1)
    program.plain(1)
    assert compiled == [platform.CPU_OPTIONS, None, None]


def test_programs_are_stored_where_the_environment_names_no_folder(tmp_path):
    environment = {k: v for k, v in os.environ.items() if "JAX_C" not in k}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-c", KEEPS, str(tmp_path)]
    subprocess.run(command, env=environment, check=True)
    assert list(tmp_path.glob("jit_heavy*"))


def test_a_folder_that_the_environment_names_stays(tmp_path):
    """This process has one in JAX_COMPILATION_CACHE_DIR, from conftest.py."""
    name, before = "jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"]
    assert jax.config.values[name] == before
    try:
        platform.keep_programs(tmp_path)
        assert jax.config.values[name] == before
    finally:
        jax.config.update(name, before)


def test_small_models_multiply_in_float32_on_accelerators(monkeypatch):
    before = jax.config.values["jax_default_matmul_precision"]
    ones = jnp.ones((2, 2))

    def is_exact():
        return "HIGHEST" in str(jax.make_jaxpr(lambda x: x @ x)(ones))

    platform.multiply_as_written()
    assert not is_exact(), "a CPU needs no setting"
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    try:
        platform.multiply_as_written()
        assert is_exact()
        platform.multiply_as_written(False)
        assert not is_exact()
    finally:
        jax.config.update("jax_default_matmul_precision", before)


@pytest.mark.parametrize(
    "cpuinfo, has",
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 vaes\n", True),
        ("processor\t: 0\nflags\t\t: fpu amx_tile amx_bf16\n", True),
        ("flags\t\t: fpu avx2 avx512f\nbugs\t\t: amx_bf16\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", False),
    ],
)
def test_the_flags_of_a_processor_tell_whether_it_has_bfloat16(
    cpuinfo, has, tmp_path, monkeypatch
):
    monkeypatch.setattr(platform, "CPUINFO", tmp_path / "cpuinfo")
    assert not platform.multiplies_bfloat16()
    platform.CPUINFO.write_text(cpuinfo)
    has = has and jax.__version_info__ >= (0, 8)
    assert platform.multiplies_bfloat16() is has
