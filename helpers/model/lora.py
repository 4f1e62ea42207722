"""LoRA (2106.09685): train two thin matrices beside each frozen one.

The base weights stay as they are, so the reference model of RL is the same arrays
without the adapters, and the optimizer keeps moments for the adapters only. The base
may be stored as int8 (as QLoRA, 2305.14314, does with 4 bits): half of bfloat16.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors.numpy import save_file

from helpers.model import names
from helpers.model.transformer import Transformer

ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")


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
      targets: which of q k v o gate up down get one.
      alpha: the adapters' output is multiplied by alpha / rank; None: 2 · rank.
      seed: of the random first matrix; the second starts at zero.
    Raises:
      ValueError: a target is not one of the seven, or rank is not positive.
    """
    if unknown := set(targets) - {*ATTENTION, *MLP}:
        raise ValueError(
            f"No such targets: {sorted(unknown)}; see lora.ATTENTION, MLP."
        )
    if rank < 1:
        raise ValueError(f"rank {rank} must be 1 or more.")
    adapted = nnx.merge(*nnx.split(model))
    layers = adapted.layers
    layers.adapters = tuple(targets)
    layers.adapter_scale = (2 * rank if alpha is None else alpha) / rank
    for key, name in zip(
        jax.random.split(jax.random.key(seed), len(targets)), targets, strict=True
    ):
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
    base.layers.adapters = ()
    return base


def merge(model: Transformer) -> Transformer:
    """A plain model whose matrices are base + scale · A B, in the base's dtype."""
    merged = remove(model)
    for name in model.layers.adapters:
        a, b = (getattr(model.layers, f"{name}_{part}")[...] for part in "ab")
        change = jnp.einsum("lir,lro->lio", a, b, preferred_element_type=jnp.float32)
        weight = merged.layers.weight(name).astype(jnp.float32)
        weight = weight + model.layers.adapter_scale * change
        setattr(merged.layers, name, nnx.Param(weight.astype(model.embed.dtype)))
    return merged


def quantize(model: Transformer) -> Transformer:
    """A model whose layers' matrices are int8, one scale per column (frozen).

    The largest entry of a column becomes ±127, so an entry is off by at most 1/254 of
    the largest of its column. What that does to logits and answers of the shipped
    models is in data/results/int8.csv.
    """
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
      model: an adapted model.
      folder: made if missing.
      base: id or folder of the base model, noted in adapter_config.json.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors, modules = {}, set()
    for target in model.layers.adapters:
        for layer, name in names.of_weight(("layers", target), model.config):
            name = names.in_transformers(name, model.config)
            stem = "base_model.model." + name.removesuffix(".weight")
            modules.add(stem.rsplit(".", 1)[1])
            for part in "ab":
                array = np.asarray(getattr(model.layers, f"{target}_{part}")[layer])
                tensors[f"{stem}.lora_{part.upper()}.weight"] = array.T.copy()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    rank = getattr(model.layers, f"{model.layers.adapters[0]}_a").shape[-1]
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base),
        "r": rank,
        "lora_alpha": model.layers.adapter_scale * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(modules),
    }
    if model.config.vision:  # the tower's matrices have the same names
        settings["exclude_modules"] = ".*vision_tower.*"
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
