"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

`names` says which of our stacked weights is which of theirs; matrices are stored
transposed there (out, in), and layer by layer. Nothing is held twice: each device's
part of a weight is read from the files when it is placed.
"""

import contextlib
import functools
import hashlib
import json
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from helpers.model import families, lora, quantized
from helpers.model.config import ModelConfig
from helpers.model.folder import (
    ADAPTERS,
    FLOATS,
    INDEX,
    MODEL,
    ROWS,
    WHOLE,
    WeightsError,
    read_json,
    recover,
    require_finite,
    write,
    write_json,
)
from helpers.model.peft_folder import WEIGHTS as ADAPTER_WEIGHTS
from helpers.model.transformer import Transformer, named_arrays, weight_shapes
from helpers.model.vision_config import check_preprocessor
from helpers.runtime.distributed import whole
from helpers.runtime.sharding import layout
from helpers.text import chat

# Gemma 4's per-layer table, and where it lies in the host's memory.
TABLE, HOST_TABLE = ("per_layer", "vectors"), ("per_layer", "host_vectors")
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
        check_preprocessor(folder, config.vision)
    model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0), dtype, activations))
    graph, shapes = nnx.split(model)
    try:
        with contextlib.ExitStack() as stack:
            tensors: dict = {}
            hears = False
            for path, listed in weight_files(folder):
                file = stack.enter_context(safe_open(path, framework="numpy"))
                check_place(path, file.keys(), listed)
                for name in file.keys():
                    own = families.our_name(name)
                    hears |= families.is_audio(own)
                    if families.is_read(own, vision):
                        check_tensor(name, file.get_slice(name), tensors, path)
                        tensors[own] = file.get_slice(name)
            check_names(tensors.keys(), config, folder)
            check_tied(tensors, config, folder)
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
    check_tokenizer(folder, model.config, tokenizer)
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
    config, found = model.config, dict(named_arrays(nnx.state(model)))
    if HOST_TABLE in found:  # where a table lies is no matter of the folder
        found[TABLE] = found.pop(HOST_TABLE)
    expected = weight_shapes(config)
    _check_weights(model, found, expected)
    tensors = {}
    for path in expected:
        matrix = path[0] == "layers" and path[-1] in lora.ATTENTION + lora.MLP
        array = whole(lora.matrix(model, path) if matrix else found[path])
        require_finite(array, "/".join(path))
        for layer, name in families.weight_names(path, config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            if path == PATCH:
                part = part.reshape(_kernel(part.shape)).transpose(3, 2, 0, 1)
            part = np.asarray(part.T if is_matrix else part, order="C")
            tensors[families.folder_name(name, config)] = part
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


def tensor_names(config: ModelConfig) -> set[str]:
    """The names of all tensors in a folder of a model of this shape."""
    return {
        name
        for path in weight_shapes(config)
        for _, name in families.weight_names(path, config)
    }


def file_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """{tensor name: its shape in a folder} of a model without vision."""
    return {
        name: shape.shape if layer is None else shape.shape[:0:-1]
        for path, shape in weight_shapes(config).items()
        for layer, name in families.weight_names(path, config)
    }


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    path = pathlib.Path(folder) / "config.json"
    if not path.is_file():
        raise WeightsError(
            f"{folder} has no config.json: it is not a model folder. "
            f"{in_place_of(path.parent)}"
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
    check_one_model(folder, listed)
    return [(folder / name, listed[name]) for name in sorted(listed)]


def _read(tensors, shapes, config, dtype, mesh):
    """The state of the model; a device's part of a weight is read when it is placed."""

    def read(path, shape):
        keys = [key.key for key in path]
        slices = []
        for layer, name in families.weight_names(keys, config):
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
    require_finite(array, name)
    return array


# Of RoPE, which older files hold, and config.json says.
FREQUENCIES = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


def in_place_of(folder: pathlib.Path) -> str:
    """What to do with a place that is no model folder."""
    if folder.suffix == ".gguf" or any(folder.glob("*.gguf")):
        return "Make one of a GGUF file: gguf.to_folder(file, folder)."
    if (folder / ADAPTERS).is_file():
        return (
            f"It holds adapters: load the model that {ADAPTERS} names, and put them on "
            "it with lora.load(model, folder)."
        )
    return "Pass the folder that holds config.json and model.safetensors."


def check_place(path, found, listed):
    """Refuses a file with tensors that its index does not list there.

    Files of two downloads may hold a tensor twice, and only the index knows.
    """
    if listed is not None and (strange := sorted(set(found) - listed)):
        raise WeightsError(
            f"{path} holds {strange[0]}, which {INDEX} does not list there: they do "
            "not belong together. Fetch the whole folder again."
        )


def check_one_model(folder, listed):
    """Refuses a whole file beside an index of others: transformers would read it.

    Args:
      listed: the names of the files in the index.
    """
    alone = pathlib.Path(folder) / WHOLE
    if WHOLE not in listed and alone.is_file():
        raise WeightsError(
            f"{folder} has {WHOLE} and {INDEX}, which lists "
            f"{min(listed, default='nothing')}: they may be two models. Delete that "
            "file, or the index and what it lists, whichever you do not mean."
        )


def check_tensor(name, tensor, before, path):
    """Refuses numbers that mean nothing alone, and a tensor that is there twice."""
    kind = tensor.get_dtype()
    if kind not in FLOATS:
        raise WeightsError(
            f"{path} has {name} in {kind}: a quantized model. Fetch one in bfloat16."
        )
    if families.our_name(name) in before:
        raise WeightsError(
            f"{path} has {name} under another name, too. Fetch the whole folder again."
        )


def check_tokenizer(folder, config, tokenizer):
    """Refuses a tokenizer that makes tokens which the model does not have.

    Args:
      folder: where both are saved. It may hold another model's tokenizer.
      tokenizer: of this model; None: none is saved.
    """
    recover(folder)  # what a killed save had moved aside is of the folder, too
    if tokenizer is not None:
        check_room(tokenizer, config)
    if tokenizer is None and (before := _saved_before(folder)):
        text = before.get("text_config", before)
        has = text.get("vocab_size") if isinstance(text, dict) else None
        if has != config.vocab_size:
            raise WeightsError(
                f"{folder} holds a tokenizer beside a model of {has} tokens, and this "
                f"one has {config.vocab_size}: pass its own tokenizer=, too, or choose "
                "another folder."
            )


def check_room(tokenizer, config):
    """Refuses a vocabulary that is larger than the model's.

    Tokens that were added to it may be more: Gemma 3's text models have no embedding of
    the image token that their tokenizer knows.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise WeightsError(
            f"The tokenizer has {tokenizer.vocab_size} tokens, and the model "
            f"{config.vocab_size}: it is another model's."
        )
    for name in ("bos", "eos", "pad", "unk"):
        number = getattr(tokenizer, f"{name}_token_id", None)
        if number is not None and number >= config.vocab_size:
            raise WeightsError(
                f"The tokenizer's {name} token {getattr(tokenizer, name + '_token')!r} "
                f"is number {number}, and the model has {config.vocab_size} tokens: no "
                "reader would open the two. Choose a token that the model has, such as "
                f"tokenizer.{name}_token = tokenizer.convert_ids_to_tokens(0)."
            )


def _saved_before(folder):
    """config.json of the model in a folder that has a tokenizer, if there is one."""
    config = pathlib.Path(folder) / MODEL
    if not (config.with_name("tokenizer.json").is_file() and config.is_file()):
        return {}
    try:
        found = json.loads(config.read_text("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def check_names(found, config, folder):
    """Refuses a folder without some of a config's tensors, or with others."""
    found, expected = set(found), tensor_names(config)
    if missing := sorted(expected - found):
        raise WeightsError(
            f"The weights in {folder} lack {len(missing)} tensors that config.json "
            f"asks for, first {missing[0]}."
        )
    extra = found - expected - families.redundant_names(config)
    if extra := sorted(name for name in extra if not FREQUENCIES.fullmatch(name)):
        raise WeightsError(
            f"The weights in {folder} have {len(extra)} tensors this model has no "
            f"place for, first {extra[0]}: config.json and weights do not belong "
            "together."
        )


def check_tied(tensors, config, folder):
    """Refuses a head of its own where config.json says that there is none.

    Args:
      tensors: {our name: slice of a safetensors file}.
    """
    embed, head = (tensors.get(families.OUTSIDE[name]) for name in ("embed", "head"))
    if not config.tied or head is None:
        return
    same = head.get_shape() == embed.get_shape()
    size = embed.get_shape()[0]
    for start in range(0, size, ROWS) if same else ():
        rows = slice(start, min(start + ROWS, size))
        same = same and np.array_equal(embed[rows], head[rows])
    if not same:
        raise WeightsError(
            f"{folder} has a head of its own ({families.OUTSIDE['head']} is not "
            f"{families.OUTSIDE['embed']}), and config.json says that the two are one: "
            'write "tie_word_embeddings": false there (in the outermost braces), or '
            "delete the head if it is a leftover."
        )


SAMPLED, SMALL = 4, 4096  # rows of a tensor that are read; numbers of a small one


def fingerprint(folder) -> str:
    """A checksum of a model's weights, wherever they lie and however they are cut up.

    It covers the name, dtype and shape of each tensor, and its numbers: all of a small
    tensor, four rows of a larger one, from the first to the last. So it takes less than
    a second, sees a model that was trained on or rounded, and does not see a change of
    other rows alone, nor one of config.json or the tokenizer.

    Args:
      folder: as for `weights.load`.
    Returns:
      16 hexadecimal digits.
    Raises:
      WeightsError: a file is missing or damaged.
    """
    paths = [path for path, _ in weight_files(pathlib.Path(folder))]
    return _of_files(paths)


def adapters_fingerprint(folder) -> str:
    """The same of the adapters in a folder of `lora.save`."""
    return _of_files([pathlib.Path(folder) / ADAPTER_WEIGHTS])


def _of_files(paths):
    told: dict[str, bytes] = {}
    for path in paths:
        try:
            with safe_open(path, framework="numpy") as file:
                told |= {
                    families.our_name(name): _told(file.get_slice(name))
                    for name in file.keys()
                }
        except (FileNotFoundError, SafetensorError) as error:
            raise WeightsError(
                f"{path} is missing or damaged ({error}). Fetch it or make it again."
            ) from None
    whole = hashlib.sha256()
    for name in sorted(told):
        whole.update(name.encode() + b"\0" + told[name])
    return whole.hexdigest()[:16]


def _told(tensor) -> bytes:
    """Dtype, shape and some numbers of a tensor."""
    shape = tensor.get_shape()
    found = hashlib.sha256(f"{tensor.get_dtype()}{list(shape)}".encode())
    if math.prod(shape) <= SMALL:
        found.update(tensor[...].tobytes())
    else:
        for i in range(SAMPLED):
            row = i * (shape[0] - 1) // (SAMPLED - 1)
            found.update(tensor[row : row + 1].tobytes())
    return found.digest()
