"""Small models are multiplied as written, real ones as fast as a device can."""

import jax
import jax.numpy as jnp
import pytest

from helpers.course import set_up
from helpers.recipes import food101, maths, presets
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


def test_lessons_multiply_as_written_but_for_the_one_with_a_real_model(
    accelerator, monkeypatch
):
    monkeypatch.setenv("COURSE_PRESET", "v5e-1")
    set_up.banner("15")
    assert not written()
    set_up.banner("07")
    assert written()


@pytest.mark.parametrize("recipe", [maths, food101])
def test_real_weights_end_it(recipe, accelerator, monkeypatch):
    devices.multiply_as_written()

    class Stop(Exception):
        pass

    def fetch(name):
        raise Stop

    monkeypatch.setattr(recipe.hub, "fetch", fetch)
    size = presets.FOOD["v5e-1"]
    with pytest.raises(Stop):
        recipe.load(size, size.model) if recipe is maths else recipe.load(size)
    assert not written()
