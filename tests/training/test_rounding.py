"""Parameters of 16 bits learn what float32 ones would: no small move is lost."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import toy_training as toy
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.training import Trainer, optimizers

HALF = {jnp.bfloat16: 2.0**-8, jnp.float16: 2.0**-11}  # of the last digit, relative


def train(steps, dtype, folder=None):
    """A toy in a dtype after some steps, and the trainer."""
    model = toy.Toy()
    nnx.update(model, jax.tree.map(lambda x: x.astype(dtype), nnx.state(model)))
    trainer = Trainer(
        model, toy.squared_error, optax.adam(1e-4), folder=folder, log=False
    )
    trainer.fit(toy.Rows(), steps)
    return model, trainer


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(HALF, key=str)), st.floats(1e-6, 1e-2), st.integers(0, 2**20)
)
def test_many_small_moves_add_up_as_in_float64(dtype, size, seed):
    rng = np.random.default_rng(seed)
    params = {"w": jnp.asarray(rng.uniform(0.5, 2, 64), dtype)}
    moves = rng.normal(0.3, 1, (150, 64)).astype(np.float32) * np.float32(size)
    exact = np.float64(params["w"]) + np.float64(moves).sum(0)
    transform = optax.identity()
    state = optimizers.first_state(transform, params)

    @jax.jit
    def add(params, state, move):
        whole, inner = optimizers.whole(params, state)
        return optimizers.rounded({"w": whole["w"] + move}, inner, params)

    for move in moves:
        params, state = add(params, state, move)
    assert params["w"].dtype == dtype
    error = np.abs(np.float64(params["w"]) - exact) / np.abs(exact)
    assert error.max() <= HALF[dtype] * 1.01 + 150 * HALF[dtype] ** 2 * 4


def test_a_resumed_run_has_not_forgotten_what_was_rounded_away(tmp_path):
    straight, whole = train(6, jnp.bfloat16)
    train(3, jnp.bfloat16, tmp_path)
    again, later = train(6, jnp.bfloat16, tmp_path)
    for name, x in whole.named_arrays().items():
        np.testing.assert_array_equal(x, later.named_arrays()[name])
    lost = jax.tree.leaves(whole.state.opt_state.lost)
    assert all(np.any(np.float32(x)) for x in lost)


def test_parameters_of_float32_carry_nothing_beside_them():
    params = {"w": jnp.ones(3)}
    transform = optax.adam(1e-3)
    state = optimizers.first_state(transform, params)
    assert jax.tree.structure(state) == jax.tree.structure(transform.init(params))
    both = optimizers.first_state(transform, params | {"v": jnp.ones(3, jnp.bfloat16)})
    assert len(jax.tree.leaves(both.lost)) == 1
