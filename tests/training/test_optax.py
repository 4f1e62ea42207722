"""Any Optax transformation trains as it does in a plain loop, with its own schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from toy_training import Rows, Toy, assert_same_weights, squared_error, weights

from helpers.training.trainer import Trainer

STEPS = 6
COSINE = optax.cosine_decay_schedule(3e-2, STEPS)
TRANSFORMS = {
    "clip and schedule": lambda: optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(COSINE)
    ),
    "every second": lambda: optax.MultiSteps(optax.sgd(1e-2), 2),
    "noise": lambda: optax.chain(optax.add_noise(0.1, 0.5, 3), optax.sgd(1e-2)),
    "plateau": lambda: optax.chain(
        optax.adam(1e-2), optax.contrib.reduce_on_plateau(patience=1, rtol=0.9)
    ),
}


def train(transform, minibatches):
    model, settings = Toy(), {"minibatches": minibatches, "log": False}
    Trainer(model, squared_error, transform, **settings).fit(Rows(), STEPS)
    return model


def plain_loop(transform, minibatches=1):
    """The same without the trainer, as Optax's documentation writes it."""
    transform = optax.with_extra_args_support(transform)
    graph, params = nnx.split(Toy())
    state, source = transform.init(params), Rows()

    def loss(params, batch):
        return squared_error(nnx.merge(graph, params), batch)[0]

    @jax.jit
    def updated(params, state, part):
        value, gradient = jax.value_and_grad(loss)(params, part)
        moves, state = transform.update(gradient, state, params, value=value)
        return optax.apply_updates(params, moves), state

    for _ in range(STEPS):
        batch = {k: jnp.asarray(x) for k, x in next(source).items() if k != "rows"}
        for rows in np.split(np.arange(8), minibatches):
            part = {name: x[rows] for name, x in batch.items()}
            params, state = updated(params, state, part)
    return nnx.merge(graph, params)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_any_transformation_does_what_it_does_in_a_plain_loop(name):
    minibatches = 1 if name == "plateau" else 2
    model = train(TRANSFORMS[name](), minibatches)
    expected = plain_loop(TRANSFORMS[name](), minibatches)
    assert_same_weights(model, expected, rtol=1e-4, atol=1e-5)
    moved = [np.abs(x - weights(Toy())[n]).max() for n, x in weights(model).items()]
    assert min(moved) > 1e-3
