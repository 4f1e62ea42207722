"""Which array lies where: the sharding table of parameters, and of batches.

Fully sharded data parallel (FSDP) over the mesh axis "data": every device keeps a slice
of each parameter and of the optimizer's moments, and works on its rows of the batch; a
layer's weights are gathered just before they are used. Tensor parallel over "model": a
matrix stays cut while it is used, and what the parts make is added up.

The model marks where rows are spread and weights gathered (`spread`, `gathered`), on
the mesh that `using` sets. Without these marks, XLA cuts the feed-forward over "data"
instead of the rows, and adds up activations at every layer.
"""

import contextlib
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers.runtime import distributed

# Tensor parallelism (1909.08053): these matrices are cut along what they make, or along
# what they take, so that a layer needs one sum over "model" after attention and one
# after the feed-forward. The vocabulary of embed and head is cut as well.
MAKES = {"q", "k", "v", "gate", "up", "q_b", "k_b", "v_b", "gate_b", "up_b"}
TAKES = {"o", "down", "o_a", "down_a", "embed", "head"}
# Tables in the memory of the chips' host.
ON_HOST = {"host_vectors"}
# Half of Gemma 4's E2B, of which each token needs one row: it stays cut while it is
# used, and the rows are sent.
LOOKED_UP = {"vectors"}


def partition(
    path: tuple, shape: tuple[int, ...], data: int, model: int = 1
) -> PartitionSpec:
    """The sharding table: which axes of a parameter lie over the devices.

    Over "model" goes the last axis of the matrices in MAKES and the last but one of
    those in TAKES. Over "data" goes the largest of the other axes that divides, but
    never the axis along which layers are stacked (the scan over layers would gather all
    of them at every layer); else none. Moments of the optimizer have the paths and
    shapes of their parameters, hence their layout.

    Args:
      path: of the parameter in a tree, as `jax.tree_util` gives it.
      shape: its shape.
      data, model: devices along the axes of the mesh.
    """
    cut = _model_cut(path, shape, model)
    axes = range(1 if is_stacked(path) else 0, len(shape))
    fitting = [axis for axis in axes if shape[axis] % data == 0 and axis not in cut]
    if fitting:
        cut[max(fitting, key=lambda axis: shape[axis])] = "data"
    return _spec(cut)


def _model_cut(path, shape, model):
    """{axis: "model"} of a matrix that is cut over that axis of the mesh, else {}."""
    axis = len(shape) - (1 if _name(path) in MAKES else 2)
    cuts = model > 1 and _name(path) in MAKES | TAKES and shape[axis] % model == 0
    return {axis: "model"} if cuts else {}


def _spec(cut):
    return PartitionSpec(*[cut.get(axis) for axis in range(max(cut, default=-1) + 1)])


def _name(path: tuple) -> str:
    """The name of a parameter at a path: the last that is no number and no wrapper."""
    names = re.findall(r"[A-Za-z_]\w*", jax.tree_util.keystr(path))
    return next((name for name in reversed(names) if name != "value"), "")


def layout(path: tuple, shape: tuple[int, ...], mesh: Mesh) -> NamedSharding:
    """`partition` on a mesh with axes ("data", "model"), and in which memory.

    Raises:
      ValueError: a table in the host's memory, and several devices.
    """
    if _name(path) in ON_HOST and mesh.size > 1:
        raise ValueError("keep_on_host serves one device; leave it out for several.")
    spec = partition(path, shape, mesh.shape["data"], mesh.shape["model"])
    memory = "pinned_host" if _name(path) in ON_HOST else None
    return NamedSharding(mesh, spec, memory_kind=memory)


def shardings(tree, mesh: Mesh):
    """The sharding of each leaf of a tree of parameters or moments."""
    return jax.tree_util.tree_map_with_path(
        lambda path, x: layout(path, x.shape, mesh), tree
    )


def place(tree, mesh: Mesh):
    """The tree with its leaves spread over the mesh as the sharding table says."""
    return jax.device_put(tree, shardings(tree, mesh))


def using(tree):
    """A context in which the model knows the mesh that a tree of arrays lies on.

    Args:
      tree: parameters, or their abstract values; on one device it does nothing.
    """
    layout = jax.tree.leaves(tree)[0].sharding
    if not isinstance(layout, NamedSharding) or layout.mesh.size == 1:
        return contextlib.nullcontext()
    return jax.set_mesh(layout.mesh)  # type: ignore[arg-type]


def mesh_in_use():
    """The mesh of the `using` that surrounds this code; None outside, or alone."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if not mesh.empty and "data" in mesh.shape and mesh.size > 1 else None


def cut_over_model() -> bool:
    """Whether matrices stay cut, over the mesh axis "model", while they are used."""
    mesh = mesh_in_use()
    return mesh is not None and mesh.shape["model"] > 1


def spread(x):
    """Activations (rows, …) with their rows over the mesh axis "data"."""
    mesh = mesh_in_use()
    if mesh is None or x.shape[0] % mesh.shape["data"]:
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec("data"))


def everywhere(x):
    """The same numbers on every device, such as tokens."""
    mesh = mesh_in_use()
    return x if mesh is None else jax.lax.with_sharding_constraint(x, PartitionSpec())


def gathered(tree, dtype):
    """Weights as they are used: gathered over the mesh axis "data", except LOOKED_UP.

    Args:
      tree: parameters, by the paths that `partition` knows.
      dtype: what matrices are used in; gathering them in it sends less. Narrower ones
        stay as they are.
    """
    mesh, width = mesh_in_use(), jnp.dtype(dtype).itemsize
    if mesh is None:
        return tree

    def whole(path, x):
        if _name(path) in LOOKED_UP:
            return x
        spec = _spec(_model_cut(path, x.shape, mesh.shape["model"]))
        if _name(path) in MAKES | TAKES and x.dtype.itemsize > width:
            x = x.astype(dtype)
        return jax.lax.with_sharding_constraint(x, spec)

    return jax.tree_util.tree_map_with_path(whole, tree)


def local_places(mesh: Mesh) -> int:
    """How many places along the mesh axis "data" belong to this process.

    Raises:
      ValueError: the processes have no equal shares of the mesh.
    """
    index, count = distributed.share()
    owners = [{device.process_index for device in place} for place in mesh.devices]
    local = owners.count({index})
    if local * count != len(owners):
        raise ValueError(
            f"The {len(owners)} places of the mesh axis data are not shared evenly by"
            f" {count} processes. Use all devices; model must divide those of one."
        )
    return local


def spread_rows(arrays, weights):
    """Arrays with their rows over the devices that the weights lie on, for sampling.

    Call it outside of `using`: there JAX spreads what one process has over all of them.

    Args:
      arrays: with the same leading axis; each process passes its own rows.
      weights: a tree of parameters. If they are on one device, or the rows cannot be
        shared out evenly, the arrays stay as they are.

    Raises:
      ValueError: several processes, and rows that cannot be shared out evenly.
    """
    assert mesh_in_use() is None, "call spread_rows outside of `using`"
    layout = jax.tree.leaves(weights)[0].sharding
    if not isinstance(layout, NamedSharding) or layout.mesh.size == 1:
        return arrays
    rows, places = arrays[0].shape[0], local_places(layout.mesh)  # type: ignore[arg-type]
    layout_of_rows = NamedSharding(layout.mesh, PartitionSpec("data"))
    if rows % places == 0:
        return [_joined(x, layout_of_rows) for x in arrays]
    if layout.is_fully_addressable:
        return arrays
    raise ValueError(f"Choose a multiple of {places} rows per process, not {rows}.")


def _joined(x, layout):
    """A global array of the rows that each process passes."""
    if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.make_array_from_process_local_data(layout, x)
    numbers = _joined(jax.random.key_data(x), layout)
    return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(x))


def local_rows(arrays):
    """On the host, those rows of arrays that this process passed to `spread_rows`.

    Args:
      arrays: a tree of arrays whose leading axis is the rows.
    """

    def local(x):
        if getattr(x, "is_fully_addressable", True):  # NumPy arrays are, too
            return jax.device_get(x)
        x = jax.device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec("data")))
        parts = {part.index[0].start or 0: part.data for part in x.addressable_shards}
        return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)])

    return jax.tree.map(local, arrays)


def is_stacked(path: tuple) -> bool:
    """Whether the parameter at a tree path has the layers stacked on its axis 0."""
    return "layers" in jax.tree_util.keystr(path)


def cached_pieces(arrays: dict, rows: int, mesh: Mesh) -> int:
    """How many pieces to compute an update of `rows` rows in.

    A lone CPU is 1.2× to 1.3× faster with about a thousand tokens at a time (this
    course's small models), because the output of a layer is still in its cache when the
    next one reads it. Accelerators take everything at once.
    """
    if mesh.size > 1 or mesh.devices.flat[0].platform != "cpu":
        return 1
    sizes = [x[:1].size for x in arrays.values() if x.dtype != np.uint8]  # no pictures
    tokens_per_row = max(sizes, default=0)
    fitting = [n for n in range(1, rows + 1) if rows % n == 0]
    return max(n for n in fitting if n == 1 or rows // n * tokens_per_row >= 1024)


def place_batch(batch: dict, mesh: Mesh, minibatches=1, accumulate: int | None = 1):
    """Cuts the rows of a batch into pieces, and spreads each piece over the devices.

    With several processes each passes its own B rows and cuts them the same way; piece
    number i is the pieces number i of all of them, one after the other.

    Args:
      batch: arrays with the same leading axis B; whatever is no array is left out.
      mesh: devices, axes ("data", "model").
      minibatches, accumulate: updates per batch and pieces per update; None for
        accumulate takes `cached_pieces`.

    Returns:
      Arrays (minibatches, accumulate, B / minibatches / accumulate, …), whose third
      axis lies over the mesh axis "data", and is that long for each process.

    Raises:
      ValueError: the leading axes differ or do not divide.
    """
    arrays = {
        name: x
        for name, x in batch.items()
        if hasattr(x, "dtype") and x.dtype.kind not in "OUS"
    }
    rows = {name: x.shape[0] for name, x in arrays.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"The arrays of a batch need the same leading axis: {rows}.")
    B = max(rows.values())
    if accumulate is None:
        accumulate = cached_pieces(arrays, max(B // minibatches, 1), mesh)
    pieces, devices = minibatches * accumulate, local_places(mesh)
    if B % (pieces * devices):
        raise ValueError(
            f"A batch of {B} rows cannot be cut for minibatches={minibatches} times"
            f" accumulate={accumulate} and {devices} devices: choose a multiple of"
            f" {pieces * devices}, or pass a smaller mesh."
        )
    layout = NamedSharding(mesh, PartitionSpec(None, None, "data"))
    return {
        name: jax.make_array_from_process_local_data(
            layout, x.reshape(minibatches, accumulate, B // pieces, *x.shape[1:])
        )
        for name, x in arrays.items()
    }


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
        raise ValueError(f"model={model} must divide the {len(devices)} devices.")
    auto = jax.sharding.AxisType.Auto  # explicit: its default differs between versions
    return jax.make_mesh(
        (len(devices) // model, model),
        ("data", "model"),
        axis_types=(auto, auto),
        devices=devices,
    )
