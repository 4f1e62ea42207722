"""Several products at once, held to each on its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.model.ops import lora_matmuls

ROWS, IN = (2, 5), 6
CASES = [  # columns of each matrix, rank of its adapter; 0: none
    ([9], [2]),
    ([6, 2, 2], [2, 2, 2]),
    ([6, 2, 3], [0, 2, 1]),
]


def case(outs, ranks, dtype=jnp.float32):
    """x, matrices, adapters, and a weight for every output."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape), dtype)

    weights = [normal(IN, out) for out in outs]
    adapters = [
        (normal(IN, rank), normal(rank, out)) if rank else ()
        for out, rank in zip(outs, ranks, strict=True)
    ]
    return normal(*ROWS, IN), weights, adapters, [normal(*ROWS, out) for out in outs]


def truth(x, weights, adapters, pulls):
    """Outputs, and the slopes of their weighted sum, in the order of the arguments."""
    outs, for_x, for_weights, for_adapters = [], 0, [], []
    flat = x.reshape(-1, IN)
    for weight, adapter, pull in zip(weights, adapters, pulls, strict=True):
        pull = pull.reshape(-1, pull.shape[-1])
        a, b = adapter or (np.zeros((IN, 1)), np.zeros((1, weight.shape[1])))
        outs.append((flat @ (weight + a @ b)).reshape(*ROWS, -1))
        for_x = for_x + pull @ (weight + a @ b).T
        for_weights.append(flat.T @ pull)
        slopes = flat.T @ pull @ b.T, (flat @ a).T @ pull
        for_adapters.append(slopes if adapter else ())
    return outs, for_x.reshape(x.shape), for_weights, for_adapters


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 3e-6), (jnp.bfloat16, 0.02)])
@pytest.mark.parametrize("widens", [True, False])
@pytest.mark.parametrize("sizes", CASES)
def test_products_and_slopes_are_those_of_each_on_its_own(sizes, widens, dtype, bound):
    given = case(*sizes, dtype)

    @jax.jit
    def ours(*given):
        *arguments, pulls = given
        outputs, backward = jax.vjp(lambda *z: lora_matmuls(*z, widens), *arguments)
        return outputs, *backward(pulls)

    expected = truth(*jax.tree.map(lambda y: np.asarray(y, np.float64), given))
    outputs = ours(*given)
    assert jax.tree.structure(outputs) == jax.tree.structure(expected)
    for one, other in zip(*map(jax.tree.leaves, (outputs, expected)), strict=True):
        assert one.dtype == dtype
        largest = np.abs(other).max()
        np.testing.assert_allclose(
            np.asarray(one, np.float64), other, atol=bound * largest
        )
