"""The mesh of devices that models and batches are spread over."""

from collections.abc import Sequence

import jax


def make_mesh(
    devices: Sequence[jax.Device] | None = None, model: int = 1
) -> jax.sharding.Mesh:
    """A mesh with axes ("data", "model") over all devices, or over those given.

    Args:
      devices: defaults to `jax.devices()`.
      model: devices per model replica; must divide their number.
    Raises:
      ValueError: `model` does not divide the number of devices.
    """
    devices = list(jax.devices() if devices is None else devices)
    if model < 1 or len(devices) % model:
        raise ValueError(
            f"{len(devices)} devices cannot be split into groups of model={model}. "
            "Choose a divisor of the number of devices."
        )
    auto = jax.sharding.AxisType.Auto  # explicit: its default differs between versions
    return jax.make_mesh(
        (len(devices) // model, model),
        ("data", "model"),
        axis_types=(auto, auto),
        devices=devices,
    )
