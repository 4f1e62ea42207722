import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.training.optimizers import adamw, cosine, muon


@pytest.mark.parametrize("steps, warmup", [(100, 10), (7, 0), (60, 1)])
def test_the_schedule_is_optax_s_linear_warmup_then_its_cosine(steps, warmup):
    rate = cosine(0.3, steps, warmup)
    if warmup:  # one step ahead: Optax begins with a step whose rate is 0
        climb = optax.linear_schedule(0.0, 0.3, warmup)(np.arange(1, warmup + 1))
        np.testing.assert_allclose([rate(i) for i in range(warmup)], climb, rtol=1e-5)
    fall = optax.cosine_decay_schedule(0.3, steps - 1 - warmup, alpha=0.05)
    expected = fall(np.arange(steps - warmup))
    ours = [rate(i) for i in range(warmup, steps)]
    np.testing.assert_allclose(ours, expected, rtol=1e-4)


def numpy_adamw(p, gradients, rates, *, b1=0.9, b2=0.95, eps=1e-8, decay, clip):
    """1711.05101, algorithm 2, with the gradient clipped by its global norm."""
    m = {k: np.zeros_like(x) for k, x in p.items()}
    v = {k: np.zeros_like(x) for k, x in p.items()}
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = np.sqrt(sum((x**2).sum() for x in g.values()))
        for k in p:
            gk = g[k] * min(1.0, clip / norm)
            m[k] = b1 * m[k] + (1 - b1) * gk
            v[k] = b2 * v[k] + (1 - b2) * gk**2
            step = (m[k] / (1 - b1**t)) / (np.sqrt(v[k] / (1 - b2**t)) + eps)
            p = p | {k: p[k] - rate * (step + decay * p[k])}
    return p


def run(optimizer, p, gradients):
    state, update = optimizer.transform.init(p), jax.jit(optimizer.transform.update)
    for step, g in enumerate(gradients):
        moves, state = update(g, state, p)
        rate = optimizer.learning_rate(step)
        p = jax.tree.map(lambda x, move, rate=rate: x + rate * move, p, moves)
    return p


def test_adamw_is_its_equation():
    rng = np.random.default_rng(0)
    p = {"embed": rng.normal(size=(5, 3)), "bias": rng.normal(size=(3,))}
    gradients = [
        {k: scale * rng.normal(size=x.shape) for k, x in p.items()}
        for scale in (0.01, 10.0, 0.3, 1.0)  # the clip acts on some only
    ]
    optimizer = adamw(0.1, steps=4, warmup=2, weight_decay=0.2, clip=1.0)
    rates = [optimizer.learning_rate(step) for step in range(4)]
    expected = numpy_adamw(p, gradients, rates, decay=0.2, clip=1.0)
    ours = run(optimizer, jax.tree.map(jnp.float32, p), gradients)
    for name in p:
        np.testing.assert_allclose(ours[name], expected[name], rtol=2e-5, atol=1e-6)


def numpy_orthogonalize(x):
    """Jordan's five Newton-Schulz steps for one matrix."""
    x = x / np.linalg.norm(x)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def test_muon_orthogonalises_each_layer_s_matrix_and_leaves_the_rest_to_adam():
    rng = np.random.default_rng(1)
    shapes = {"embed": (6, 4), "layers": {"up": (3, 4, 8), "norm": (3, 4)}}
    p = jax.tree.map(
        lambda shape: jnp.zeros(shape), shapes, is_leaf=lambda x: isinstance(x, tuple)
    )
    g = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) / 50), p)
    ours = run(muon(0.02, clip=1e9), p, [g])
    for layer in range(3):
        gradient = np.asarray(g["layers"]["up"][layer], np.float64)
        # First step: momentum and its Nesterov look-ahead are parallel to the gradient.
        expected = -0.02 * np.sqrt(8 / 4) * numpy_orthogonalize(gradient)
        np.testing.assert_allclose(ours["layers"]["up"][layer], expected, atol=2e-4)
    # The first step of Adam with Nesterov's look-ahead (b1 = 0.9) is the sign of the
    # gradient times (1 + 0.9 * 0.1 / (1 - 0.9²)) times its rate, 0.15 of Muon's.
    size = 0.15 * 0.02 * (1 + 0.09 / 0.19)
    for adam, gradient in (
        (ours["embed"], g["embed"]),
        (ours["layers"]["norm"], g["layers"]["norm"]),
    ):
        np.testing.assert_allclose(adam, -size * np.sign(gradient), rtol=1e-3)
