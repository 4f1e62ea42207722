"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

One table says which of our stacked weights is which of theirs; matrices are stored
transposed there (out, in), and layer by layer.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer

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
      folder: holds `config.json` and `model.safetensors`.
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
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            _check_names(file.keys(), names(config), path)
            weights = _read(file, shapes, config, dtype)
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no model.safetensors.") from None
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is damaged ({error}). Delete it and fetch or make it again."
        ) from None
    if mesh is not None:
        from helpers.sharding import place

        weights = place(weights, mesh)
    return nnx.merge(graph, weights)


def save(model, folder, tokenizer=None):
    """Writes a folder that `transformers` and `load` read; made aside, then renamed.

    Args:
      model: a Transformer.
      folder: made if missing; files of the same names are replaced.
      tokenizer: saved beside the weights, with its chat template.
    """
    from helpers.chat import save_tokenizer

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for path, value in _flat_items(nnx.state(model, nnx.Param)):
        array = np.asarray(jax.device_get(value))
        for layer, name in _hf_names(path, model.config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            tensors[name] = np.ascontiguousarray(part.T if is_matrix else part)
    if tokenizer is not None:
        save_tokenizer(tokenizer, folder)
    config = json.dumps(model.config.to_hf(), indent=2) + "\n"
    (folder / "config.json").write_text(config)
    aside = folder / "model.safetensors.part"
    save_file(tensors, aside, metadata={"format": "pt"})
    aside.rename(folder / "model.safetensors")


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    path = pathlib.Path(folder) / "config.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise WeightsError(
            f"{folder} has no config.json: it is not a model folder. Pass the folder "
            "that holds config.json and model.safetensors."
        ) from None
    except ValueError as error:
        raise WeightsError(f"{path} is not JSON: {error}") from None


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


def _check_names(found, expected, path):
    found = set(found)
    if missing := sorted(expected - found):
        raise WeightsError(f"{path} lacks {len(missing)} tensors, first {missing[0]}.")
    if extra := sorted(found - expected - {OUTSIDE["head"]}):
        raise WeightsError(
            f"{path} has {len(extra)} tensors this model has no place for, first "
            f"{extra[0]}: config.json and weights do not belong together."
        )


def _read(file, shapes, config, dtype):
    """The state of the model, read tensor by tensor into stacked arrays."""
    flat = {}
    for path, shape in _flat_items(shapes):
        stacked = np.empty(shape.shape, jnp.dtype(dtype))
        for layer, name in _hf_names(path, config):
            place = stacked if layer is None else stacked[layer]
            tensor = file.get_tensor(name)
            tensor = tensor.T if layer is not None and tensor.ndim == 2 else tensor
            if tensor.shape != place.shape:
                raise WeightsError(
                    f"{name} has shape {tensor.shape[::-1]}, config.json asks for "
                    f"{place.shape[::-1]} (in, out): they do not belong together."
                )
            place[...] = tensor
        flat[path] = jnp.asarray(stacked)
    state = nnx.to_pure_dict(shapes)
    for path, array in flat.items():
        inner = state
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = array
    nnx.replace_by_pure_dict(shapes, state)
    return shapes
