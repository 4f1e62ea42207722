"""Programs of a lesson are compiled quickly on CPUs, and compute what they would."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.runtime.devices import CPU_OPTIONS, jit


def gram(x):
    return jnp.tanh(x @ x.T).sum(axis=0)


def test_it_gives_what_the_function_gives():
    x = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32)
    expected = np.tanh(x.astype(np.float64) @ x.T).sum(axis=0)
    np.testing.assert_allclose(jit(gram)(x), expected, rtol=1e-4)


def test_a_cpu_is_told_to_optimise_less_and_another_device_nothing(monkeypatch):
    compiled = []
    monkeypatch.delenv("XLA_FLAGS", raising=False)

    def fake(function, **settings):
        return lambda *args: compiled.append(settings.get("compiler_options"))

    monkeypatch.setattr(jax, "jit", fake)
    program = jit(gram)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    program(1)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    program(1)
    program.plain(1)
    assert compiled == [CPU_OPTIONS, None, None]


def test_inside_another_program_the_plain_one_is_called(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    program = jit(gram)
    x = jnp.ones((4, 4))
    with pytest.raises(ValueError, match="compiler_options"):
        jax.jit(lambda x: program(x))(x)
    np.testing.assert_array_equal(
        jax.jit(lambda x: program.plain(x))(x), program.plain(x)
    )


KEEPS = """
import sys
import jax, jax.numpy as jnp
from helpers.runtime.devices import jit, keep_programs
jnp.ones(3).sum()  # JAX has compiled something before it is told
keep_programs(sys.argv[1], least_seconds=0.0)
def heavy(x):
    return jnp.sort(jnp.tanh(x @ x))
print(jit(heavy)(jnp.ones((8, 8))).sum())
"""


def test_programs_are_kept_unless_the_environment_names_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    own, named = tmp_path / "own", tmp_path / "named"
    for variable in ({}, {"JAX_COMPILATION_CACHE_DIR": str(named)}):
        environment = {k: v for k, v in os.environ.items() if "JAX_C" not in k}
        command = [sys.executable, "-c", KEEPS, str(own)]
        subprocess.run(command, env=environment | variable, check=True)
        folder = named if variable else own
        assert list(folder.glob("jit_heavy*")), "kept, however early JAX compiled"
    assert len(list(own.glob("jit_heavy*"))) <= 2, "only what ran without a variable"
