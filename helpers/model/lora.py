"""LoRA (2106.09685): train two thin matrices beside each frozen one.

The base weights stay as they are, so the reference model of RL is the same arrays
without the adapters, and the optimizer keeps moments for the adapters only. The base
may be quantized (`helpers.model.quantized`): int8 is half of bfloat16, and NF4, as in
QLoRA (2305.14314), a quarter.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import peft_folder, quantized
from helpers.model.folder import WeightsError, place_of
from helpers.model.quantized import Quantized
from helpers.model.transformer import Transformer
from helpers.runtime.distributed import whole
from helpers.runtime.ranges import require, require_count

ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
MOST_ROUNDED = 0.5  # of what adapters add, before merging them in 16 bits is warned of


class Adapter(nnx.LoRAParam):
    """A trained thin matrix, float32."""


def trainable(model: nnx.Module):
    """What training changes by default, as an nnx filter.

    The adapters (`nnx.LoRAParam`) of a model that has any, else every `nnx.Param` that
    is a float. Quantized matrices and their scales are neither.
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
      ValueError: a target is not one of the seven, there are none, rank is not a whole
        number above 0, alpha not above 0, or the model has adapters already.
    """
    targets = set(targets)
    if not targets or targets - {*ATTENTION, *MLP}:
        raise ValueError(f"targets are {sorted(targets)}: choose of {ATTENTION + MLP}.")
    require_count("rank", rank)
    alpha = 2 * rank if alpha is None else require("alpha", alpha, above=0)
    if names := adapters(model):
        raise ValueError(
            f"The model has adapters on {', '.join(names)} already: pass "
            "lora.merge(model) to add to them, or lora.remove(model) to begin anew."
        )
    adapted, places = nnx.merge(*nnx.split(model)), []
    for layers in adapted.stacks().values():
        # In one order, as a set's differs from process to process.
        layers.adapters = tuple(name for name in matrices(layers) if name in targets)
        # NumPy's would make bfloat16 float32.
        layers.adapter_scale = float(alpha / rank)
        places += [(layers, name) for name in layers.adapters]
    keys = jax.random.split(jax.random.key(seed), len(places))
    for key, (layers, name) in zip(keys, places, strict=True):
        L, rows, columns = quantized.shape(layers, name)
        noise = jax.random.normal(key, (L, rows, rank), jnp.float32) * rows**-0.5
        setattr(layers, f"{name}_a", Adapter(noise))
        setattr(layers, f"{name}_b", Adapter(jnp.zeros((L, rank, columns))))
    return adapted


def matrices(layers) -> tuple[str, ...]:
    """Which of q k v o gate up down a stack of layers has; Gemma 4's lack some."""
    return tuple(name for name in ATTENTION + MLP if hasattr(layers, name))


def adapters(model: Transformer) -> tuple[str, ...]:
    """The names of matrices that have adapters, in any stack of layers."""
    names = {name for layers in model.stacks().values() for name in layers.adapters}
    return tuple(name for name in ATTENTION + MLP if name in names)


def remove(model: Transformer) -> Transformer:
    """The base of an adapted model: the same arrays, without adapters."""
    base = nnx.merge(*nnx.split(model))
    for layers in base.stacks().values():
        for name in layers.adapters:
            delattr(layers, f"{name}_a")
            delattr(layers, f"{name}_b")
        layers.adapters, layers.adapter_scale = (), 1.0
    return base


def merge(model: Transformer) -> Transformer:
    """A plain model whose matrices are base + scale · A B, none of them quantized.

    They are in the base's dtype: in bfloat16 each entry is off by up to 1/256 of it.
    """
    merged = remove(model)
    stacks = merged.stacks()
    for *stack, name in beside(merged):
        delattr(stacks[tuple(stack)], name)
    for path, layers in stacks.items():
        for name in matrices(layers):
            setattr(layers, name, nnx.Param(matrix(model, (*path, name))))
    return merged


def matrix(model: Transformer, path):
    """What the model multiplies by: the matrix, its scales and its adapter in one.

    Args:
      path: of the matrix, one of q k v o gate up down, as ("layers", "q").
    Returns:
      (layers, in, out) in the dtype of the base; of a quantized one, in that of the
      embeddings.
    Warns:
      UserWarning: in 16 bits most of what the adapter adds is rounded away.
    """
    *stack, name = path
    layers, adapters = model.stacks()[tuple(stack)], None
    stored = quantized.parts(layers, name)
    if name in layers.adapters:
        adapters = tuple(pair[...] for pair in _pair(layers, name))
    dtype = stored[""].dtype
    if quantized.kind_of(layers, name):
        dtype = model.embed.dtype
    elif adapters is None:
        return stored[""]
    joined, off, added = _joined(stored, adapters, layers.adapter_scale, dtype=dtype)
    if adapters and float(off) > MOST_ROUNDED**2 * float(added) > 0:
        warnings.warn(
            f"Rounded to {dtype}, the weights lose more than {MOST_ROUNDED:.0%} of what"
            " the adapters add. Save the adapters alone (lora.save), or load the base"
            ' with dtype="float32".',
            stacklevel=3,
        )
    return joined


@functools.partial(jax.jit, static_argnames="dtype")
def _joined(stored, adapters, factor, dtype):
    """The decoded matrix + factor · A B in float32, layer by layer, to spare memory.

    And the squares of what its rounding and its adapters change, added up.
    """
    info = jnp.finfo(dtype)

    def one(layer):
        stored, adapters = layer
        weight = quantized.decode(stored)
        added = jnp.zeros(())
        if adapters is not None:
            added = factor * jnp.matmul(*adapters, precision="highest")
        weight = weight + added
        rounded = jax.lax.reduce_precision(weight, info.nexp, info.nmant)
        off = jnp.square(rounded - weight).sum()
        return rounded.astype(dtype), off, jnp.square(added).sum()

    joined, off, added = jax.lax.map(one, (stored, adapters))
    return joined, off.sum(), added.sum()


def beside(model: Transformer) -> set[tuple[str, ...]]:
    """Paths of what `matrix` takes in: adapters, and scales of codes."""
    return {
        (*path, name + end)
        for path, layers in model.stacks().items()
        for name in matrices(layers)
        for end in ("_a", "_b", *quantized.ENDS)
        if hasattr(layers, name + end)
    }


def _kind(model):
    """How the model's matrices are quantized, all alike; "" if they are not."""
    (layers, *_) = model.stacks().values()
    return quantized.kind_of(layers, "q")


def quantize(model: Transformer, kind="int8") -> Transformer:
    """A model whose layers' matrices are stored in few bits (frozen).

    An int8 entry is off by at most 1/254 of the largest of its column, an NF4 one by at
    most 0.152 of the largest of its 64, and by the rounding of that where it is stored
    in 8 bits. Adapters stay as they are.

    Args:
      kind: one of `quantized.KINDS`: int8; nf4, 4.5 bits a number; nf4 double, 4.13.
    Raises:
      ValueError: no such kind, the model is quantized already, or for NF4 a matrix has
        an odd number of rows.
    """
    if kind not in quantized.KINDS:
        known = ", ".join(quantized.KINDS)
        raise ValueError(f"No such way to store matrices: {kind!r}. Choose of {known}.")
    if stored := _kind(model):
        raise ValueError(f"The model is {stored} already, its scales would be lost.")
    small = nnx.merge(*nnx.split(model))
    for layers in small.stacks().values():
        for name in matrices(layers):
            weight = getattr(layers, name)[...]
            for end, array in quantized.encode(weight, kind).items():
                setattr(layers, name + end, Quantized(array))
    return small


def save(model: Transformer, folder, base="", fingerprint="") -> None:
    """Writes the adapters as a PEFT folder, which `peft` and vLLM load on the base.

    Args:
      model: an adapted model. If its base is quantized, they were trained beside
        rounded matrices, and on the exact ones compute something a little different:
        that is warned of, and noted in the metadata of adapter_model.safetensors.
      folder: made if missing.
      base: id or folder of the base model, noted in adapter_config.json. Of a Gemma
        it decides what the adapters are called: its config.json says whether towers
        are beside the text model. An id that is not on this machine: as published.
      fingerprint: of its weights (`weights.fingerprint`), noted in that metadata.
    Raises:
      ValueError: the model has no adapters.
      WeightsError: the disk is full, say, or a model is in that folder; or a Gemma 4
        without vision has no base.
    """
    if not adapters(model):
        raise ValueError("The model has no adapters: save it with weights.save.")
    if kind := _kind(model):
        warnings.warn(
            f"The adapters in {folder} were trained beside {kind} matrices. Save the "
            "base that they fit with weights.save(lora.remove(model), …).",
            stacklevel=2,
        )
    arrays = {
        (*path, name): tuple(whole(pair[...]) for pair in _pair(layers, name))
        for path, layers in model.stacks().items()
        for name in layers.adapters
    }
    first, *_ = arrays.values()
    (factor,) = {layers.adapter_scale for layers in model.stacks().values()}
    rank, base_kind = first[0].shape[-1], quantized.KINDS.get(kind, "")
    stored = peft_folder.Adapters(rank, factor, base_kind, arrays)
    peft_folder.save(folder, stored, model.config, str(base or ""), fingerprint)


def load(model: Transformer, folder, base: str | None = None) -> Transformer:
    """A model with the adapters of a PEFT folder, to go on from or to use.

    Args:
      model: the base they were trained on; stays as it is.
      folder: from `save`, or `peft`'s own save_pretrained.
      base: what the folder has to name as its base, as it was given to `save`; None:
        any of the same shape will do, for a model does not know its own name.
    Raises:
      ValueError: the model has adapters already.
      WeightsError: the folder is damaged, of another kind, of a model of another shape
        or with another base.
    """
    if base is not None and place_of(peft_folder.base_of(folder)) != place_of(base):
        raise WeightsError(
            f"The adapters in {folder} were trained on {peft_folder.base_of(folder)}, "
            f"not on {base}. Load that base, or train adapters anew on this one."
        )
    stored = peft_folder.read(folder, model.config, ATTENTION + MLP)
    alpha = stored.factor * stored.rank
    targets = {name for *_, name in stored.arrays}
    adapted = add(model, stored.rank, targets=targets, alpha=alpha)
    by_words = {words: kind for kind, words in quantized.KINDS.items()}
    trained_on, kind = by_words.get(stored.base, ""), _kind(model)
    if trained_on and trained_on != kind:
        warnings.warn(
            f"The adapters in {folder} were trained beside {trained_on} matrices, not "
            f"the {kind or 'exact'} base: pass lora.quantize(model, {trained_on!r}).",
            stacklevel=2,
        )
    for path, layers in adapted.stacks().items():
        layers.adapter_scale = stored.factor
        for name in layers.adapters:
            arrays = stored.arrays[*path, name]
            for place, array in zip(_pair(layers, name), arrays, strict=True):
                # Bound to no device, as new adapters are: their base may lie on many.
                place[...] = jnp.asarray(array)
    return adapted


def _pair(layers, name):
    """Both thin matrices beside the one called `name`."""
    return [getattr(layers, f"{name}_{part}") for part in "ab"]
