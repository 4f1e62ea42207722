"""Weights on their way from the trainer to workers: named arrays, and a version.

What travels is what is trained: of a model with adapters, these alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.training.state import trained


def read(model: nnx.Module) -> dict[str, np.ndarray]:
    """All trained variables by name, on the host; waits for an update to end."""
    flat = nnx.to_flat_state(nnx.state(model, trained(model)))
    return {_name(path): np.asarray(jax.device_get(x[...])) for path, x in flat}


def write(model: nnx.Module, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model the trained variables of another.

    Args:
      model: of the same architecture; its other variables stay.
      arrays: from `read`.
    Raises:
      ValueError: names, shapes or dtypes are those of another model.
    """
    flat = dict(nnx.to_flat_state(nnx.state(model, trained(model))))
    own = {_name(path): (x.shape, jnp.dtype(x.dtype)) for path, x in flat.items()}
    sent = {name: (x.shape, jnp.dtype(x.dtype)) for name, x in arrays.items()}
    if own != sent:
        odd = next(n for n in [*own, *sent] if own.get(n) != sent.get(n))
        raise ValueError(
            f"The published weights are another model's: {odd} is {sent.get(odd)}, here"
            f" {own.get(odd)}. Trainer and workers must load the same folder, with the"
            " same adapters."
        )
    for path, x in flat.items():
        # A sharding of its own stays: the sampling program is compiled for it.
        x[...] = jax.device_put(arrays[_name(path)], x[...].sharding)
    nnx.update(model, nnx.from_flat_state(list(flat.items())))


def _name(path) -> str:
    return ".".join(map(str, path))
