"""LoRA (2106.09685): train two thin matrices beside each frozen one.

The base weights stay as they are, so the reference model of RL is the same arrays
without the adapters, and the optimizer keeps moments for the adapters only. The base
may be stored as int8 (as QLoRA, 2305.14314, does with 4 bits): half of bfloat16.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import peft_folder
from helpers.model.transformer import Transformer
from helpers.runtime.processes import whole

ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
MOST_ROUNDED = 0.5  # of what adapters add, before merging them in 16 bits is warned of


class Adapter(nnx.LoRAParam):
    """A trained thin matrix, float32."""


class Quantized(nnx.Variable):
    """A frozen int8 matrix, or the scales of its columns."""


def trainable(model: nnx.Module):
    """What training changes unless it is told otherwise, as an nnx filter.

    The adapters (`nnx.LoRAParam`) of a model that has any, else every `nnx.Param` that
    is a float. Int8 matrices and their scales are neither.
    """
    if jax.tree.leaves(nnx.state(model, nnx.LoRAParam)):
        return nnx.LoRAParam
    return nnx.All(nnx.Param, is_float)


def is_float(path, variable) -> bool:
    """Whether a variable can be trained at all, as an nnx filter."""
    return jnp.issubdtype(variable.dtype, jnp.floating)


def add(model: Transformer, rank, *, targets=ATTENTION + MLP, alpha=None, seed=0):
    """A model with the same base arrays and fresh adapters, equal to the base at first.

    Adapters stand beside the decoder's matrices; a tower that sees gets none.

    Args:
      model: stays as it is.
      rank: inner width of the adapters.
      targets: which of q k v o gate up down get one, in any order.
      alpha: the adapters' output is multiplied by alpha / rank; None: 2 · rank.
      seed: of the random first matrix; the second starts at zero.
    Raises:
      ValueError: a target is not one of the seven, there are none, rank or alpha is
        not positive, or the model has adapters already.
    """
    targets = set(targets)
    if unknown := targets - {*ATTENTION, *MLP}:
        raise ValueError(
            f"No such targets: {sorted(unknown)}; see lora.ATTENTION, MLP."
        )
    alpha = 2 * rank if alpha is None else alpha
    if not (rank >= 1 and alpha > 0 and targets):
        raise ValueError(
            f"rank {rank} must be 1 or more, alpha {alpha} above 0, and targets "
            f"{sorted(targets)} at least one: nothing could be learned."
        )
    if model.layers.adapters:
        raise ValueError(
            f"The model has adapters on {', '.join(model.layers.adapters)} already, "
            "which new ones would replace. Pass lora.merge(model) to add to what they "
            "have learned, or lora.remove(model) to begin anew."
        )
    adapted = nnx.merge(*nnx.split(model))
    layers = adapted.layers
    # In one order, as a set's differs from process to process.
    layers.adapters = tuple(name for name in ATTENTION + MLP if name in targets)
    layers.adapter_scale = float(alpha / rank)  # NumPy's would make bfloat16 float32
    keys = jax.random.split(jax.random.key(seed), len(layers.adapters))
    for key, name in zip(keys, layers.adapters, strict=True):
        L, rows, columns = getattr(layers, name).shape
        noise = jax.random.normal(key, (L, rows, rank), jnp.float32) * rows**-0.5
        setattr(layers, f"{name}_a", Adapter(noise))
        setattr(layers, f"{name}_b", Adapter(jnp.zeros((L, rank, columns))))
    return adapted


def remove(model: Transformer) -> Transformer:
    """The base of an adapted model: the same arrays, without adapters."""
    base = nnx.merge(*nnx.split(model))
    for name in base.layers.adapters:
        delattr(base.layers, f"{name}_a")
        delattr(base.layers, f"{name}_b")
    base.layers.adapters, base.layers.adapter_scale = (), 1.0
    return base


def merge(model: Transformer) -> Transformer:
    """A plain model whose matrices are base + scale · A B, none of them int8.

    They are in the base's dtype: in bfloat16 each entry is off by up to 1/256 of it.
    """
    merged = remove(model)
    for name in ATTENTION + MLP:
        setattr(merged.layers, name, nnx.Param(matrix(model, name)))
    for name in _int8(model):
        delattr(merged.layers, f"{name}_scale")
    return merged


def matrix(model: Transformer, name):
    """What the model multiplies by: the matrix, its scales and its adapter in one.

    Args:
      name: one of q k v o gate up down.
    Returns:
      (layers, in, out) in the dtype of the base; int8 becomes that of the embeddings.
    Warns:
      UserWarning: in 16 bits most of what the adapter adds is rounded away.
    """
    layers, adapters = model.layers, None
    weight, scale = getattr(layers, name)[...], None
    if name in layers.adapters:
        adapters = tuple(getattr(layers, f"{name}_{part}")[...] for part in "ab")
    if name in _int8(model):
        scale = getattr(layers, f"{name}_scale")[...]
    if adapters is None and scale is None:
        return weight
    dtype = weight.dtype if scale is None else model.embed.dtype
    joined, off, added = _joined(
        weight, scale, adapters, layers.adapter_scale, dtype=dtype
    )
    if adapters and float(off) > MOST_ROUNDED**2 * float(added) > 0:
        warnings.warn(
            f"Rounded to {dtype}, the weights lose more than {MOST_ROUNDED:.0%} of what"
            " the adapters add. Save the adapters alone (lora.save), or merge them into"
            ' a base in float32 (weights.load(folder, dtype="float32")).',
            stacklevel=3,
        )
    return joined


@functools.partial(jax.jit, static_argnames="dtype")
def _joined(weight, scale, adapters, factor, dtype):
    """weight · scale + factor · A B in float32, layer by layer, to spare memory.

    And the squares of what its rounding and its adapters change, added up.
    """
    info = jnp.finfo(dtype)

    def one(layer):
        weight, scale, adapters = layer
        weight = weight.astype(jnp.float32)
        if scale is not None:
            weight = weight * scale
        added = jnp.zeros(())
        if adapters is not None:
            added = factor * jnp.matmul(*adapters, precision="highest")
        weight = weight + added
        rounded = jax.lax.reduce_precision(weight, info.nexp, info.nmant)
        off = jnp.square(rounded - weight).sum()
        return rounded.astype(dtype), off, jnp.square(added).sum()

    joined, off, added = jax.lax.map(one, (weight, scale, adapters))
    return joined, off.sum(), added.sum()


def beside(model: Transformer) -> set:
    """Tree paths of what `matrix` takes in: adapters, and scales of int8 matrices."""
    adapters = {f"{name}_{part}" for name in model.layers.adapters for part in "ab"}
    return {("layers", x) for x in adapters | {f"{n}_scale" for n in _int8(model)}}


def _int8(model):
    """The names of the matrices that are int8."""
    held = {n: getattr(model.layers, n, None) for n in ATTENTION + MLP}
    return {n for n, x in held.items() if x is not None and x.dtype == jnp.int8}


def quantize(model: Transformer) -> Transformer:
    """A model whose layers' matrices are int8, one scale per column (frozen).

    The largest entry of a column becomes ±127, so an entry is off by at most 1/254 of
    the largest of its column. What that does to logits and answers of the shipped
    models is in data/results/int8.csv. Adapters stay as they are.

    Raises:
      ValueError: the model is int8 already.
    """
    if _int8(model):
        raise ValueError("The model is int8 already: its scales would be lost.")
    small = nnx.merge(*nnx.split(model))
    for name in ATTENTION + MLP:
        weight = getattr(small.layers, name)[...].astype(jnp.float32)
        scale = jnp.abs(weight).max(axis=1, keepdims=True) / 127
        rounded = jnp.round(weight / jnp.maximum(scale, 1e-30)).astype(jnp.int8)
        setattr(small.layers, name, Quantized(rounded))
        setattr(small.layers, f"{name}_scale", Quantized(scale))
    return small


def save(model: Transformer, folder, base="") -> None:
    """Writes the adapters as a PEFT folder, which `peft` and vLLM load on the base.

    Args:
      model: an adapted model. If its base is int8, they were trained beside rounded
        matrices, and on the exact ones compute something a little different: that is
        warned of, and noted in the metadata of adapter_model.safetensors.
      folder: made if missing.
      base: id or folder of the base model, noted in adapter_config.json.
    Raises:
      ValueError: the model has no adapters.
      WeightsError: the disk is full, say, or a model is in that folder.
    """
    layers = model.layers
    if not layers.adapters:
        raise ValueError(
            "The model has no adapters (were they merged?). Save it with weights.save."
        )
    small = bool(_int8(model))
    if small:
        warnings.warn(
            f"The adapters in {folder} were trained beside int8 matrices, and on the "
            "exact base answer a little differently. weights.save(lora.remove(model), "
            "…) writes the base that they fit, weights.save(model, …) both merged.",
            stacklevel=2,
        )
    arrays = {
        name: tuple(whole(getattr(layers, f"{name}_{part}")[...]) for part in "ab")
        for name in layers.adapters
    }
    rank = arrays[layers.adapters[0]][0].shape[-1]
    kept = peft_folder.Adapters(
        rank, layers.adapter_scale, peft_folder.INT8 if small else "", arrays
    )
    peft_folder.save(folder, kept, model.config, str(base))


def load(model: Transformer, folder) -> Transformer:
    """A model with the adapters of a PEFT folder, to go on from or to use.

    Args:
      model: the base they were trained on; stays as it is.
      folder: from `save`, or `peft`'s own save_pretrained.
    Raises:
      ValueError: the model has adapters already.
      WeightsError: the folder is damaged, of another kind, or of another model.
    """
    found = peft_folder.read(folder, model.config, ATTENTION + MLP)
    if found.base == peft_folder.INT8 and not _int8(model):
        warnings.warn(
            f"The adapters in {folder} were trained beside int8 matrices, and on this "
            "exact base answer a little differently. Pass lora.quantize(model).",
            stacklevel=2,
        )
    alpha = found.factor * found.rank
    adapted = add(model, found.rank, targets=found.arrays, alpha=alpha)
    adapted.layers.adapter_scale = found.factor
    for name, parts in found.arrays.items():
        for part, array in zip("ab", parts, strict=True):
            place = getattr(adapted.layers, f"{name}_{part}")
            place[...] = jax.device_put(array, place[...].sharding)
    return adapted
