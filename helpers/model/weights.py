"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

`names` says which of our stacked weights is which of theirs; matrices are stored
transposed there (out, in), and layer by layer. Nothing is held twice: each device's
part of a weight is read from the files when it is placed.
"""

import contextlib
import functools
import json
import math
import os
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from helpers.model import names
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.runtime.processes import on_first, whole
from helpers.runtime.sharding import layout
from helpers.text import chat

INDEX = "model.safetensors.index.json"
PATCH = ("vision", "patch")  # a kernel (C, 3, p, p) there, a matrix (p · p · 3, C) here


class WeightsError(ValueError):
    """A model folder is incomplete, damaged, or not what its config.json says."""


def load(folder, *, vision=False, mesh=None, dtype=jnp.float32, activations=None):
    """Reads a Hugging Face model folder.

    Args:
      folder: holds `config.json` and `model.safetensors`, or the several safetensors
        files that `model.safetensors.index.json` lists.
      vision: of Gemma 3 with vision, read the tower too; False reads the text half.
      mesh: places the weights, fully sharded over its "data" axis; None: one device.
      dtype, activations: of the weights in memory, and between them (see Transformer).
    Returns:
      A Transformer.
    Raises:
      WeightsError: naming the file or tensor that is missing, extra, misshapen or cut.
      UnsupportedModel: config.json asks for something this decoder does not do.
    """
    folder = pathlib.Path(folder)
    config = ModelConfig.from_hf(read_config(folder), vision)
    model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0), dtype, activations))
    graph, shapes = nnx.split(model)
    try:
        with contextlib.ExitStack() as stack:
            tensors = {}
            for path, listed in _weight_files(folder):
                file = stack.enter_context(safe_open(path, framework="numpy"))
                _check_place(path, file.keys(), listed)
                for name in file.keys():
                    if vision or not names.of_vision(names.ours(name)):
                        tensors[names.ours(name)] = file.get_slice(name)
            _check_names(tensors.keys(), names.of_model(config), folder)
            weights = _read(tensors, shapes, config, dtype, mesh)
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no {path.name}.") from None
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is damaged ({error}). Delete it and fetch or make it again."
        ) from None
    return nnx.merge(graph, weights)


def save(model, folder, tokenizer=None):
    """Writes a folder that `transformers` and `load` read; made aside, then renamed.

    Args:
      model: a Transformer.
      folder: made if missing; files of the same names are replaced.
      tokenizer: saved beside the weights, with its chat template; config.json and
        generation_config.json then say which of its ids end an answer.
    Raises:
      WeightsError: the disk is full, say; the model that was there before is kept.
    """
    tensors = {}
    for path, value in names.items(nnx.state(model, nnx.Param)):
        array = whole(value)
        for layer, name in names.of_weight(path, model.config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            if path == PATCH:
                part = part.reshape(_kernel(part.shape)).transpose(3, 2, 0, 1)
            name = names.in_folder(name, model.config)
            tensors[name] = np.ascontiguousarray(part.T if is_matrix else part)
    config = model.config.to_hf() | {"torch_dtype": model.embed[...].dtype.name}
    vision = model.config.vision
    beside = {"preprocessor_config.json": vision.preprocessor()} if vision else {}
    on_first(lambda: _write(tensors, config, beside, tokenizer, pathlib.Path(folder)))


def _write(tensors, config, beside, tokenizer, folder):
    """Writes all files of a folder aside, then moves them in."""
    aside = folder / f".part-{os.getpid()}"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        _remove_what_killed_saves_left(folder)
        if tokenizer is not None:
            chat.save_tokenizer(tokenizer, aside)
            ids = {
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": list(chat.eos_ids(tokenizer)),
                "pad_token_id": tokenizer.pad_token_id,
            }
            _write_json(ids, aside / "generation_config.json")  # for their generate()
            config |= ids
        for name, content in (beside | {"config.json": config}).items():
            _write_json(content, aside / name)
        save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})
        _move_in(aside, folder)
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{folder} could not be written ({error}). Free some space, or choose a "
            "folder that you may write to, and save again."
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_json(content, path):
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _move_in(aside, folder):
    """Renames the new files into the folder: all of them or, after an error, none.

    config.json leaves first and comes last: a folder without it is no model folder, so
    whoever reads or is killed in between never has the files of two models.
    """
    new = sorted((path.name for path in aside.iterdir()), key=_is_config)
    old = aside / "old"
    old.mkdir()
    arrived = []
    try:
        for name in (*reversed(new), INDEX):
            if (folder / name).exists():
                (folder / name).replace(old / name)
        for name in new:
            (aside / name).replace(folder / name)
            arrived.append(name)
    except BaseException:
        for name in reversed(arrived):
            (folder / name).unlink()
        for name in sorted((path.name for path in old.iterdir()), key=_is_config):
            (old / name).replace(folder / name)
        raise


def _is_config(name):
    return name == "config.json"


def _remove_what_killed_saves_left(folder):
    for left in folder.glob(".part-*"):
        try:
            os.kill(int(left.name.removeprefix(".part-")), 0)  # is the process there?
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (PermissionError, ValueError):
            continue


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    path = pathlib.Path(folder) / "config.json"
    if not path.is_file():
        raise WeightsError(
            f"{folder} has no config.json: it is not a model folder. Pass the folder "
            "that holds config.json and model.safetensors."
        )
    return _parsed(path)


def _weight_files(folder):
    """[(safetensors file, the tensors its index lists in it; None without an index)]"""
    index = folder / INDEX
    if not index.is_file():
        return [(folder / "model.safetensors", None)]
    places, listed = _parsed(index).get("weight_map", {}), {}
    if not isinstance(places, dict):
        raise WeightsError(f"weight_map of {index} is not an object.")
    for tensor, name in places.items():
        if not isinstance(name, str) or pathlib.PurePath(name).name != name:
            raise WeightsError(f"{index} has {tensor} in {name!r}, not in a file here.")
        listed.setdefault(name, set()).add(tensor)
    return [(folder / name, listed[name]) for name in sorted(listed)]


def _check_place(path, found, listed):
    """Files of two downloads may hold a tensor twice, and only the index knows."""
    if listed is not None and (strange := sorted(set(found) - listed)):
        raise WeightsError(
            f"{path} holds {strange[0]}, which {INDEX} does not list there: they do "
            "not belong together. Fetch the whole folder again."
        )


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
    if extra := sorted(found - expected - {names.OUTSIDE["head"]}):
        raise WeightsError(
            f"The weights in {folder} have {len(extra)} tensors this model has no "
            f"place for, first {extra[0]}: config.json and weights do not belong "
            "together."
        )


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
            slices.append(tensors[name])
        place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        if mesh is not None:
            place = layout(path, shape.shape, mesh)
        part = _stacked if "layers" in keys else _single
        part = _patch if tuple(keys) == PATCH else part
        part = functools.partial(part, slices, shape.shape, jnp.dtype(dtype))
        return jax.make_array_from_callback(shape.shape, place, part)

    arrays = jax.tree_util.tree_map_with_path(read, nnx.to_pure_dict(shapes))
    nnx.replace_by_pure_dict(shapes, arrays)
    return shapes


def _single(slices, shape, dtype, index):
    """A part of a weight that is one tensor in the file."""
    return slices[0][index].astype(dtype)


def _patch(slices, shape, dtype, index):
    """A part of the matrix that a kernel of patches is to us; the kernel is small."""
    kernel = slices[0][:].transpose(2, 3, 1, 0)
    return kernel.reshape(shape)[index].astype(dtype)


def _kernel(shape):
    """(height, width, colours, C) of the kernel that a matrix (p · p · 3, C) is."""
    side = math.isqrt(shape[0] // 3)
    return side, side, 3, shape[1]


def _stacked(slices, shape, dtype, index):
    """A part of a weight whose layers are tensors of their own, matrices transposed."""
    ranges = [range(size)[i] for size, i in zip(shape, index, strict=True)]
    stacked = np.empty([len(r) for r in ranges], dtype)
    for slot, layer in zip(stacked, ranges[0], strict=True):
        slot[...] = slices[layer][index[:0:-1]].T
    return stacked
