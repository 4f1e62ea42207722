"""Any Optax transformation trains as it does in a plain loop, with its own schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from toy_training import Rows, Toy, assert_same_weights, squared_error, weights

from helpers.training.logging import is_timing
from helpers.training.trainer import Trainer

STEPS = 6
COSINE = optax.cosine_decay_schedule(3e-2, STEPS)
TRANSFORMS = {
    "adamw": lambda: optax.adamw(1e-2),
    "clip and schedule": lambda: optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(COSINE)
    ),
    "injected": lambda: optax.inject_hyperparams(optax.adamw)(learning_rate=COSINE),
    "every second": lambda: optax.MultiSteps(optax.sgd(1e-2), 2),
    "noise": lambda: optax.chain(optax.add_noise(0.1, 0.5, 3), optax.sgd(1e-2)),
    "plateau": lambda: optax.chain(
        optax.adam(1e-2),
        optax.contrib.reduce_on_plateau(patience=1, rtol=0.9),
    ),
}


def train(transform, steps=STEPS, **settings):
    model = Toy()
    trainer = Trainer(model, squared_error, transform, log=False, **settings)
    table = trainer.fit(Rows(), steps)
    return model, [{k: x for k, x in r.items() if not is_timing(k)} for r in table]


def plain_loop(transform, minibatches=1):
    """The same without the trainer, as Optax's documentation writes it."""
    transform = optax.with_extra_args_support(transform)
    graph, params = nnx.split(Toy())
    state, source = transform.init(params), Rows()

    def loss(params, batch):
        return squared_error(nnx.merge(graph, params), batch)[0]

    for _ in range(STEPS):
        batch = {k: jnp.asarray(x) for k, x in next(source).items() if k != "rows"}
        for rows in np.split(np.arange(8), minibatches):
            part = {name: x[rows] for name, x in batch.items()}
            value, gradient = jax.value_and_grad(loss)(params, part)
            moves, state = transform.update(gradient, state, params, value=value)
            params = optax.apply_updates(params, moves)
    return nnx.merge(graph, params)


@pytest.mark.parametrize("minibatches", [1, 2])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_any_transformation_does_what_it_does_in_a_plain_loop(name, minibatches):
    model, table = train(TRANSFORMS[name](), minibatches=minibatches)
    expected = plain_loop(TRANSFORMS[name](), minibatches)
    assert_same_weights(model, expected, rtol=1e-4, atol=1e-5)
    moved = [np.abs(x - weights(Toy())[n]).max() for n, x in weights(model).items()]
    assert min(moved) > 1e-3
    assert all("learning_rate" in row for row in table) == (name == "injected")


def test_a_rate_is_shown_where_the_state_holds_it_and_it_is_the_right_one():
    _, table = train(TRANSFORMS["injected"](), minibatches=2)
    counts = 2 * np.arange(STEPS) + 1  # of the last update of each step
    shown = [row["learning_rate"] for row in table]
    np.testing.assert_allclose(shown, COSINE(counts), rtol=1e-5, atol=1e-9)
