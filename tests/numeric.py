"""What the tests of the losses share: float64, finite differences, distributions."""

import jax
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# Since jax 0.8 this is jax.enable_x64; before, it was experimental.
if hasattr(jax, "enable_x64"):
    float64 = jax.enable_x64
else:
    from jax.experimental import enable_x64 as float64  # noqa: F401

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**31)


def same(a, b, tolerance=1e-9):
    """Asserts that numbers agree, absolutely and relatively."""
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def slopes(function, x, step=1e-6):
    """Central differences of a function of one array."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def log_softmax(logits):
    """In NumPy."""
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def exact_kl(log_p, log_q):
    """KL(p || q) of two distributions over one vocabulary."""
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))
