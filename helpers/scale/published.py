"""Weights on their way from the trainer to workers: named arrays, and a version.

What travels is what is trained: of a model with adapters, these alone. Of the others a
checksum goes with them, for adapters on another base are another model.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.runtime.run_identity import fingerprint
from helpers.training.state import trained

BASE = "checksum of "


def read(model: nnx.Module, wrt=None) -> dict[str, np.ndarray]:
    """All trained variables by name, on the host; waits for an update to end.

    Those that are not trained are told by a checksum each, computed once.

    Args:
      wrt: which are trained, as for the `Trainer`.
    """
    flat, others = _flat(model, trained(model, wrt))
    arrays = {_name(path): np.asarray(jax.device_get(x[...])) for path, x in flat}
    return arrays | _checksums(others)


def write(model: nnx.Module, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model the trained variables of another.

    Args:
      model: of the same architecture, and with the same numbers in its other variables,
        which stay.
      arrays: from `read`.
    Raises:
      ValueError: names, shapes or dtypes are those of another model, or its variables
        that are not trained are others.
    """
    flat, others = _flat(model, lambda path, _: _name(path) in arrays)
    own = {_name(path): (x.shape, jnp.dtype(x.dtype)) for path, x in flat}
    own |= {name: str(x) for name, x in _checksums(others).items()}
    sent = {name: _told(name, x) for name, x in arrays.items()}
    if own != sent:
        odd = next(n for n in [*own, *sent] if own.get(n) != sent.get(n))
        raise ValueError(
            f"The published weights are another model's: {odd} is {sent.get(odd)}, here"
            f" {own.get(odd)}. Trainer and workers must load the same folder, with the"
            " same adapters."
        )
    for path, x in flat:
        # A sharding of its own stays: the sampling program is compiled for it.
        x[...] = jax.device_put(arrays[_name(path)], x[...].sharding)
    nnx.update(model, nnx.from_flat_state(list(flat)))


def _flat(model, chosen):
    """Pairs (path, variable): those that an nnx filter chooses, and the others."""
    states = nnx.state(model, chosen, ...)
    return [list(nnx.to_flat_state(state)) for state in states]


def _checksums(variables):
    """Of numbers that training leaves as they are; counts and keys of noise move."""
    return {
        BASE + _name(path): np.asarray(fingerprint(x))
        for path, x in variables
        if not isinstance(x, nnx.RngState)
    }


def _told(name, array):
    return str(array) if name.startswith(BASE) else (array.shape, array.dtype)


def _name(path) -> str:
    return ".".join(map(str, path))
