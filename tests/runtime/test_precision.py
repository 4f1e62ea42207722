"""Small models are multiplied as written, real ones as fast as a device can."""

import jax
import jax.numpy as jnp
import pytest

from helpers.runtime import devices


@pytest.fixture(autouse=True)
def after():
    before = jax.config.values["jax_default_matmul_precision"]
    yield
    jax.config.update("jax_default_matmul_precision", before)


@pytest.fixture
def accelerator(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")


def written():
    """Whether a product that is traced now asks for all digits."""
    ones = jnp.ones((2, 2))
    return "HIGHEST" in str(jax.make_jaxpr(lambda x: x @ x)(ones))


def test_a_processor_is_told_nothing():
    devices.multiply_as_written()
    assert not written()


def test_an_accelerator_is_told_and_told_again(accelerator):
    assert not written()
    devices.multiply_as_written()
    assert written()
    devices.multiply_as_written(False)
    assert not written()
