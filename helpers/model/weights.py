"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

`names` says which of our stacked weights is which of theirs; matrices are stored
transposed there (out, in), and layer by layer. Nothing is held twice: each device's
part of a weight is read from the files when it is placed.
"""

import contextlib
import functools
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from helpers.model import lora, names, preprocessor_checks, quantized, weights_checks
from helpers.model.config import ModelConfig
from helpers.model.folder import (
    INDEX,
    MODEL,
    WeightsError,
    read_json,
    write,
    write_json,
)
from helpers.model.transformer import Transformer
from helpers.runtime.distributed import whole
from helpers.runtime.sharding import layout
from helpers.text import chat

PATCH = ("vision", "patch")  # a kernel (C, 3, p, p) there, a matrix (p · p · 3, C) here


def load(folder, *, vision=False, mesh=None, dtype=jnp.float32, activations=None):
    """Reads a Hugging Face model folder.

    Args:
      folder: holds `config.json` and `model.safetensors`, or the several safetensors
        files that `model.safetensors.index.json` lists.
      vision: of Gemma 3 or 4 with vision, read the tower too; False reads the text
        half. What hears is never read, and a printed sentence says so.
      mesh: places the weights, fully sharded over its "data" axis; None: one device.
      dtype, activations: of the weights in memory, and between them (see Transformer).
    Returns:
      A Transformer.
    Raises:
      WeightsError: naming the file or tensor that is missing, extra, misshapen, cut, or
        of numbers that need scales.
      UnsupportedModel: config.json asks for something this decoder does not do, or
        another file for pictures that are prepared in another way.
    """
    if not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        raise ValueError(f"dtype {jnp.dtype(dtype)} is no float; see lora.quantize.")
    folder = pathlib.Path(folder)
    config = ModelConfig.from_hf(read_config(folder), vision)
    if vision:
        preprocessor_checks.check(folder, config.vision)
    model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0), dtype, activations))
    graph, shapes = nnx.split(model)
    try:
        with contextlib.ExitStack() as stack:
            tensors: dict = {}
            hears = False
            for path, listed in weight_files(folder):
                file = stack.enter_context(safe_open(path, framework="numpy"))
                weights_checks.check_place(path, file.keys(), listed)
                for name in file.keys():
                    own = names.ours(name)
                    hears |= names.of_hearing(own)
                    if names.is_read(own, vision):
                        weights_checks.check_tensor(
                            name, file.get_slice(name), tensors, path
                        )
                        tensors[own] = file.get_slice(name)
            weights_checks.check_names(tensors.keys(), config, folder)
            weights_checks.check_tied(tensors, config, folder)
            weights = _read(tensors, shapes, config, dtype, mesh)
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no {path.name}.") from None
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is damaged ({error}). Delete it and fetch or make it again."
        ) from None
    if hears:
        print(f"{folder} has an audio tower, which is left out: give it no sounds.")
    return nnx.merge(graph, weights)


def save(model, folder, tokenizer=None):
    """Writes a folder that `transformers` and `load` read; made aside, then renamed.

    It holds what the model computes: adapters are added to their matrices and
    quantized ones decoded, one weight at a time, in the dtype of the embeddings. The
    model in memory stays as it is.

    Args:
      model: a Transformer.
      folder: made if missing; files of the same names are replaced.
      tokenizer: saved beside the weights, with its chat template; config.json and
        generation_config.json then say which of its ids end an answer.
    Raises:
      WeightsError: the model has weights or a habit that such a folder has no place
        for, or lacks some, or some that are not finite; the tokenizer is another
        model's; or the disk is full, say. The model that was there before is kept.
    """
    weights_checks.check_tokenizer(folder, model.config, tokenizer)
    config = config_json(model.config) | {"torch_dtype": model.embed.dtype.name}
    vision, tensors = model.config.vision, folder_tensors(model)

    def fill(aside):
        ids = {}
        if tokenizer is not None:
            image_tokens = vision.image_tokens() if vision else None
            chat.save_tokenizer(tokenizer, aside, image_tokens)
            ids = {
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": list(chat.eos_ids(tokenizer)),
                "pad_token_id": tokenizer.pad_token_id,
            }
            write_json(ids, aside / "generation_config.json")  # for their generate()
        if vision:
            write_json(vision.preprocessor(), aside / "preprocessor_config.json")
            write_json(vision.processor(), aside / "processor_config.json")
        write_json(config | ids, aside / MODEL)
        save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})

    write(folder, MODEL, fill)


def folder_tensors(model) -> dict[str, np.ndarray]:
    """{name in the folder: array, laid out as there} of what a model computes.

    Raises:
      WeightsError: the model has weights that no folder has a place for, or lacks some.
    """
    config, found = model.config, dict(names.items(nnx.state(model)))
    if names.HOST_TABLE in found:  # where a table lies is no matter of the folder
        found[names.TABLE] = found.pop(names.HOST_TABLE)
    expected = names.shapes(config)
    _check_weights(model, found, expected)
    tensors = {}
    for path in expected:
        matrix = path[0] == "layers" and path[-1] in lora.ATTENTION + lora.MLP
        array = whole(lora.matrix(model, path) if matrix else found[path])
        weights_checks.require_finite(array, "/".join(path))
        for layer, name in names.of_weight(path, config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            if path == PATCH:
                part = part.reshape(_kernel(part.shape)).transpose(3, 2, 0, 1)
            part = np.asarray(part.T if is_matrix else part, order="C")
            tensors[names.in_folder(name, config)] = part
    return tensors


def config_json(config):
    """The content of config.json; refuses habits that it would not bring back."""
    content = config.to_hf()
    has, would = map(
        _habits, (config, ModelConfig.from_hf(content, bool(config.vision)))
    )
    if lost := [name for name in has if has[name] != would[name]]:
        raise WeightsError(
            f"A {config.family} with {lost[0]}={has[lost[0]]} cannot be saved: config."
            f"json has no word for it, and would bring back {would[lost[0]]}."
        )
    return content


def _habits(config):
    """A ModelConfig by what it makes a model do; two spellings may do the same."""
    fields = vars(config) | {"attention_scale": config.attention_scale}
    fields["pattern"] = [config.is_global(layer) for layer in range(config.layers)]
    return {name: x for name, x in fields.items() if name != "query_scale"}


def _check_weights(model, found, expected):
    """Refuses a model whose weights are not those of its config."""
    shapes = {path: array.shape for path, array in found.items()}
    for path, layers in model.stacks().items():
        for name in lora.matrices(layers):
            shapes[*path, name] = quantized.shape(layers, name)
    if strange := sorted(found.keys() - expected.keys() - lora.beside(model)):
        raise WeightsError(
            f"The model has {'/'.join(strange[0])}, which a model folder has no place "
            "for: read back, it would be another model. Take it out, and save again."
        )
    for path, shape in expected.items():
        if shapes.get(path) != shape.shape:
            has = shapes.get(path, "none")
            raise WeightsError(
                f"{'/'.join(path)} should have shape {shape.shape}, as the model's "
                f"config says, and has {has}: it cannot be saved."
            )


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    path = pathlib.Path(folder) / "config.json"
    if not path.is_file():
        raise WeightsError(
            f"{folder} has no config.json: it is not a model folder. "
            f"{weights_checks.in_place_of(path.parent)}"
        )
    return read_json(path)


def weight_files(folder):
    """[(safetensors file, the tensors its index lists in it; None without an index)]"""
    index = folder / INDEX
    if not index.is_file():
        return [(folder / "model.safetensors", None)]
    places = read_json(index).get("weight_map", {})
    listed: dict[str, set[str]] = {}
    if not isinstance(places, dict):
        raise WeightsError(f"weight_map of {index} is not an object.")
    for tensor, name in places.items():
        if not isinstance(name, str) or pathlib.PurePath(name).name != name:
            raise WeightsError(f"{index} has {tensor} in {name!r}, not in a file here.")
        listed.setdefault(name, set()).add(tensor)
    weights_checks.check_one_model(folder, listed)
    return [(folder / name, listed[name]) for name in sorted(listed)]


def _read(tensors, shapes, config, dtype, mesh):
    """The state of the model; a device's part of a weight is read when it is placed."""

    def read(path, shape):
        keys = [key.key for key in path]
        slices = []
        for layer, name in names.of_weight(keys, config):
            expected = shape.shape if layer is None else shape.shape[:0:-1]
            if tuple(keys) == PATCH:
                height, width, colours, size = _kernel(shape.shape)
                expected = size, colours, height, width
            if tuple(tensors[name].get_shape()) != expected:
                raise WeightsError(
                    f"{name} has shape {tuple(tensors[name].get_shape())}, config.json "
                    f"asks for {expected}: they do not belong together."
                )
            slices.append((name, tensors[name]))
        place: jax.sharding.Sharding
        if mesh is None:
            place = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        else:
            place = layout(path, shape.shape, mesh)
        part = _stacked if "layers" in keys else _single
        part = _patch if tuple(keys) == PATCH else part
        part = functools.partial(part, slices, shape.shape, jnp.dtype(dtype))
        # Waited for: until a copy is done, what is copied is held, too.
        array = jax.make_array_from_callback(shape.shape, place, part)
        return jax.block_until_ready(array)

    arrays = jax.tree_util.tree_map_with_path(read, nnx.to_pure_dict(shapes))
    nnx.replace_by_pure_dict(shapes, arrays)
    return shapes


def _single(slices, shape, dtype, index):
    """A part of a weight that is one tensor in the file."""
    name, tensor = slices[0]
    return _cast(tensor[index], dtype, name)


def _patch(slices, shape, dtype, index):
    """A part of the matrix that a kernel of patches is to us; the kernel is small."""
    name, tensor = slices[0]
    kernel = tensor[:].transpose(2, 3, 1, 0)
    return _cast(kernel.reshape(shape)[index], dtype, name)


def _kernel(shape):
    """(height, width, colours, C) of the kernel that a matrix (p · p · 3, C) is."""
    side = math.isqrt(shape[0] // 3)
    return side, side, 3, shape[1]


def _stacked(slices, shape, dtype, index):
    """A part of a weight whose layers are tensors of their own, matrices transposed."""
    ranges = [range(size)[i] for size, i in zip(shape, index, strict=True)]
    stacked = np.empty([len(r) for r in ranges], dtype)
    for slot, layer in enumerate(ranges[0]):  # of bounds, a layer has a bare number
        name, tensor = slices[layer]
        part = tensor[index[:0:-1]] if len(shape) > 1 else tensor[...]
        stacked[slot] = _cast(part, dtype, name).T
    return stacked


def _cast(array, dtype, name):
    """An array in another dtype, in which its numbers have to be finite, too."""
    with np.errstate(over="ignore"):
        array = np.asarray(array).astype(dtype, copy=False)
    weights_checks.require_finite(array, name)
    return array
