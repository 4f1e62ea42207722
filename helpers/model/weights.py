"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

One table says which of our stacked weights is which of theirs; matrices are stored
transposed there (out, in), and layer by layer.
"""

import contextlib
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from helpers import chat
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.sharding import place

INDEX = "model.safetensors.index.json"
OUTSIDE = {
    "embed": "model.embed_tokens.weight",
    "head": "lm_head.weight",
    "final_norm": "model.norm.weight",
}
IN_LAYER = {
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "attention_norm": "input_layernorm.weight",
    "ff_norm": "post_attention_layernorm.weight",
}
IN_GEMMA_LAYER = IN_LAYER | {
    "post_attention_norm": "post_attention_layernorm.weight",
    "ff_norm": "pre_feedforward_layernorm.weight",
    "post_ff_norm": "post_feedforward_layernorm.weight",
}


class WeightsError(ValueError):
    """A model folder is incomplete, damaged, or not what its config.json says."""


def load(folder, *, mesh=None, dtype=jnp.float32):
    """Reads a Hugging Face model folder.

    Args:
      folder: holds `config.json` and `model.safetensors`, or the several safetensors
        files that `model.safetensors.index.json` lists.
      mesh: places the weights, fully sharded over its "data" axis; None: one device.
      dtype: of the weights in memory.
    Returns:
      A Transformer.
    Raises:
      WeightsError: naming the file or tensor that is missing, extra, misshapen or cut.
      UnsupportedModel: config.json asks for something this decoder does not do.
    """
    folder = pathlib.Path(folder)
    config = ModelConfig.from_hf(read_config(folder))
    model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0), dtype))
    graph, shapes = nnx.split(model)
    try:
        with contextlib.ExitStack() as stack:
            files = {}
            for path in _weight_files(folder):
                file = stack.enter_context(safe_open(path, framework="numpy"))
                files |= dict.fromkeys(file.keys(), file)
            _check_names(files.keys(), names(config), folder)
            weights = _read(files, shapes, config, dtype)
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no {path.name}.") from None
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is damaged ({error}). Delete it and fetch or make it again."
        ) from None
    if mesh is None:
        return nnx.merge(graph, jax.device_put(weights))
    return nnx.merge(graph, place(weights, mesh))


def save(model, folder, tokenizer=None):
    """Writes a folder that `transformers` and `load` read; made aside, then renamed.

    Args:
      model: a Transformer.
      folder: made if missing; files of the same names are replaced.
      tokenizer: saved beside the weights, with its chat template; config.json then
        says which of its ids end an answer.
    Raises:
      WeightsError: the disk is full; weights that were there before are kept.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for path, value in _flat_items(nnx.state(model, nnx.Param)):
        array = np.asarray(jax.device_get(value))
        for layer, name in _hf_names(path, model.config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            tensors[name] = np.ascontiguousarray(part.T if is_matrix else part)
    aside = folder / "model.safetensors.part"
    try:
        save_file(tensors, aside, metadata={"format": "pt"})
    except (SafetensorError, OSError) as error:
        aside.unlink(missing_ok=True)
        raise WeightsError(
            f"{folder} could not be written ({error}). Free some space and save again."
        ) from None
    config = model.config.to_hf() | {"torch_dtype": model.embed[...].dtype.name}
    if tokenizer is not None:
        chat.save_tokenizer(tokenizer, folder)
        config["bos_token_id"] = tokenizer.bos_token_id
        config["eos_token_id"] = list(chat.eos_ids(tokenizer))
        config["pad_token_id"] = tokenizer.pad_token_id
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / INDEX).unlink(missing_ok=True)
    aside.replace(folder / "model.safetensors")


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    path = pathlib.Path(folder) / "config.json"
    if not path.is_file():
        raise WeightsError(
            f"{folder} has no config.json: it is not a model folder. Pass the folder "
            "that holds config.json and model.safetensors."
        )
    return _parsed(path)


def names(config: ModelConfig) -> set[str]:
    """The names of all tensors a checkpoint of this shape holds."""
    shapes = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    paths = [path for path, _ in _flat_items(shapes)]
    return {name for path in paths for _, name in _hf_names(path, config)}


def _hf_names(path, config):
    """[(layer or None, HF name)] of the weight at a tree path such as layers/q."""
    if path[0] != "layers":
        return [(None, OUTSIDE[path[0]])]
    name = (IN_GEMMA_LAYER if config.is_gemma else IN_LAYER)[path[1]]
    return [(i, f"model.layers.{i}.{name}") for i in range(config.layers)]


def _flat_items(state):
    """(path of names, array or shape) of each variable, without nnx wrappers."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(state))
    return [(tuple(key.key for key in path), leaf) for path, leaf in leaves]


def _weight_files(folder):
    """The safetensors files of a folder: one, or those its index lists."""
    index = folder / INDEX
    if not index.is_file():
        return [folder / "model.safetensors"]
    shards = _parsed(index).get("weight_map", {}).values()
    return [folder / name for name in sorted(set(shards))]


def _parsed(path):
    """The JSON object in a file."""
    try:
        parsed = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise WeightsError(f"{path} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise WeightsError(f"{path} holds a {type(parsed).__name__}, not an object.")
    return parsed


def _check_names(found, expected, folder):
    found = set(found)
    if missing := sorted(expected - found):
        raise WeightsError(
            f"The weights in {folder} lack {len(missing)} tensors that config.json "
            f"asks for, first {missing[0]}."
        )
    if extra := sorted(found - expected - {OUTSIDE["head"]}):
        raise WeightsError(
            f"The weights in {folder} have {len(extra)} tensors this model has no "
            f"place for, first {extra[0]}: config.json and weights do not belong "
            "together."
        )


def _read(files, shapes, config, dtype):
    """The state of the model, read tensor by tensor into stacked NumPy arrays."""

    def read(path, shape):
        stacked = np.empty(shape.shape, jnp.dtype(dtype))
        for layer, name in _hf_names([key.key for key in path], config):
            slot = stacked if layer is None else stacked[layer]
            if layer is not None and slot.ndim == 2:
                slot = slot.T
            tensor = files[name].get_tensor(name)
            if tensor.shape != slot.shape:
                raise WeightsError(
                    f"{name} has shape {tensor.shape}, config.json asks for "
                    f"{slot.shape}: they do not belong together."
                )
            slot[...] = tensor
        return stacked

    arrays = jax.tree_util.tree_map_with_path(read, nnx.to_pure_dict(shapes))
    nnx.replace_by_pure_dict(shapes, arrays)
    return shapes
