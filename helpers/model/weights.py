"""Hugging Face folders in and out: `config.json`, safetensors, tokenizer.

`families` says which of our stacked weights is which tensor there; matrices are stored
transposed (out, in), and layer by layer. No weight is in memory twice: each device's
part of it is read from the files when it is placed.
"""

import contextlib
import functools
import hashlib
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors.numpy import save_file

from helpers.model import families, lora
from helpers.model.config import ModelConfig
from helpers.model.folder import (
    FLOATS,
    INDEX,
    MODEL,
    WHOLE,
    WeightsError,
    opened,
    read_json,
    require_finite,
    write,
    write_json,
)
from helpers.model.peft_folder import WEIGHTS as ADAPTER_WEIGHTS
from helpers.model.transformer import Transformer, named_arrays, weight_shapes
from helpers.model.vision_config import check_preprocessor, image_tokens
from helpers.runtime.distributed import whole
from helpers.runtime.sharding import layout
from helpers.text import chat

# Gemma 4's per-layer table, and where it lies in the host's memory.
TABLE, HOST_TABLE = ("per_layer", "vectors"), ("per_layer", "host_vectors")
PATCH = ("vision", "patch")  # a kernel (C, 3, p, p) there, a matrix (p · p · 3, C) here
# Of RoPE: older files have them, and they follow from config.json.
FREQUENCIES = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
SAMPLED, SMALL = 4, 4096  # rows of a tensor in its fingerprint; numbers of a small one


def load(folder, *, vision=False, mesh=None, dtype=jnp.float32, activations=None):
    """Reads a Hugging Face model folder.

    Args:
      folder: has `config.json` and `model.safetensors`, or the several safetensors
        files that `model.safetensors.index.json` lists.
      vision: of Gemma 3 or 4 with vision, read the tower too; False reads the text
        half. The part for sounds is never read.
      mesh: places the weights, fully sharded over its "data" axis; None: one device.
      dtype, activations: of the weights in memory, and between them (see Transformer).
    Returns:
      A Transformer.
    Raises:
      WeightsError: naming the file or tensor that is missing, extra, of another shape,
        damaged, or quantized.
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
    with _opened(folder, families.AUDIO if vision else families.TOWERS) as tensors:
        stored = {name: tuple(x.get_shape()) for name, x in tensors.items()}
        redundant = families.redundant_names(config)
        check_shapes(stored, file_shapes(config), redundant, folder)
        weights = _read(tensors, shapes, config, dtype, mesh)
    return nnx.merge(graph, weights)


def save(model, folder, tokenizer=None):
    """Writes a folder that `transformers` and `load` read; made aside, then renamed.

    The folder computes what the model computes: adapters are added to their matrices
    and quantized ones decoded, one weight at a time, in the dtype of the embeddings.
    The model in memory stays as it is.

    Args:
      model: a Transformer.
      folder: made if missing; files of the same names are replaced.
      tokenizer: saved beside the weights, with its chat template; config.json and
        generation_config.json then say which of its ids end an answer.
    Raises:
      WeightsError: the model has weights or a setting that such a folder has no place
        for, or lacks some, or some that are not finite; the tokenizer is another
        model's; or the disk is full, say. The model that was there before stays.
    """
    if tokenizer is not None:
        check_room(tokenizer, model.config)
    config = config_json(model.config) | {"torch_dtype": model.embed.dtype.name}
    vision, tensors = model.config.vision, folder_tensors(model)

    def fill(aside):
        ids = {}
        if tokenizer is not None:
            chat.save_tokenizer(tokenizer, aside, image_tokens(vision))
            ids = token_ids(tokenizer)
            write_json(ids, aside / "generation_config.json")  # for their generate()
        if vision:
            settings = vision.preprocessor()
            write_json(settings, aside / "preprocessor_config.json")
            some = {x: settings[x] for x in ("processor_class", "image_seq_length")}
            write_json(some, aside / "processor_config.json")  # for AutoProcessor
        write_json(config | ids, aside / MODEL)
        save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})

    write(folder, MODEL, fill)


def token_ids(tokenizer) -> dict:
    """What config.json says of a tokenizer: which ids begin and end a text, or pad."""
    ends = tokenizer.eos_token_id
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": [*chat.eos_ids(tokenizer)] if tokenizer.chat_template else ends,
        "pad_token_id": tokenizer.pad_token_id,
    }


def folder_tensors(model) -> dict[str, np.ndarray]:
    """{name in the folder: array, laid out as there} of what a model computes.

    Raises:
      WeightsError: the model has weights that no folder has a place for, or lacks some.
    """
    config, arrays = model.config, dict(named_arrays(nnx.state(model)))
    if HOST_TABLE in arrays:
        arrays[TABLE] = arrays.pop(HOST_TABLE)
    expected = weight_shapes(config)
    if strange := (arrays.keys() - lora.beside(model)) ^ expected.keys():
        names = ", ".join("/".join(path) for path in sorted(strange))
        raise WeightsError(
            f"Weights that a folder has no place for, or that are missing: {names}."
        )
    tensors = {}
    for path, should in expected.items():
        matrix = path[0] == "layers" and path[-1] in lora.ATTENTION + lora.MLP
        array = whole(lora.matrix(model, path) if matrix else arrays[path])
        require_finite(array, "/".join(path))
        if array.shape != should.shape:
            raise WeightsError(
                f"The model's weight {'/'.join(path)} has shape {array.shape}, and its "
                f"config says {should.shape}."
            )
        for layer, name in families.weight_names(path, config):
            part = array if layer is None else array[layer]
            is_matrix = layer is not None and part.ndim == 2
            if path == PATCH:
                part = part.reshape(_kernel(part.shape)).transpose(3, 2, 0, 1)
            part = np.asarray(part.T if is_matrix else part, order="C")
            tensors[families.folder_name(name, config)] = part
    return tensors


def config_json(config):
    """The content of config.json; refuses settings that it would not bring back."""
    content = config.to_hf()
    read = _settings(ModelConfig.from_hf(content, bool(config.vision)))
    if lost := {name: x for name, x in _settings(config).items() if x != read[name]}:
        raise WeightsError(f"A {config.family}'s config.json has no word for {lost}.")
    return content


def _settings(config):
    """A ModelConfig by what it computes; two spellings may compute the same."""
    fields = vars(config) | {"attention_scale": config.attention_scale}
    fields["pattern"] = [config.is_global(layer) for layer in range(config.layers)]
    return {name: x for name, x in fields.items() if name != "query_scale"}


def check_room(tokenizer, config):
    """Refuses a tokenizer with more tokens than the model has embeddings.

    Tokens that were added to it may be more: Gemma 3's text models have no embedding of
    the image token that their tokenizer knows.
    """
    ids = [getattr(tokenizer, f"{name}_token_id", 0) for name in ("bos", "eos", "pad")]
    largest = max(tokenizer.vocab_size - 1, *(x or 0 for x in ids))
    if largest >= config.vocab_size:
        raise WeightsError(
            f"The tokenizer has a token {largest}, and the model {config.vocab_size} "
            "embeddings: pass the model's own tokenizer."
        )


def file_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """{tensor name: its shape in a folder} of a model of this shape."""
    shapes = {}
    for path, x in weight_shapes(config).items():
        for layer, name in families.weight_names(path, config):
            shapes[name] = x.shape if layer is None else x.shape[:0:-1]
            if path == PATCH:
                height, width, colours, size = _kernel(x.shape)
                shapes[name] = size, colours, height, width
    return shapes


def read_config(folder) -> dict:
    """The folder's parsed config.json; WeightsError if there is none to read."""
    folder = pathlib.Path(folder)
    if (folder / MODEL).is_file():
        return read_json(folder / MODEL)
    raise WeightsError(
        f"{folder} has no {MODEL}: it is not a model folder. A GGUF file becomes one "
        f"by gguf.to_folder(file, folder); lora.load puts adapters on a loaded base."
    )


def weight_files(folder):
    """[(safetensors file, the tensors its index lists in it; None without an index)]"""
    index = folder / INDEX
    if not index.is_file():
        return [(folder / WHOLE, None)]
    listed: dict[str, set[str]] = {}
    for tensor, name in read_json(index).get("weight_map", {}).items():
        listed.setdefault(name, set()).add(tensor)
    if WHOLE not in listed and (folder / WHOLE).is_file():
        raise WeightsError(
            f"{folder} has {WHOLE}, and {INDEX} lists other files: they may be two "
            "models. Delete one of them."
        )
    return [(folder / name, listed[name]) for name in sorted(listed)]


@contextlib.contextmanager
def _opened(folder, unread):
    """{our name: slice of a file} of all tensors but those whose names begin so."""
    tensors: dict = {}
    with contextlib.ExitStack() as stack:
        for path, listed in weight_files(folder):
            file = stack.enter_context(opened(path))
            # Files of two downloads may have a tensor twice: the index decides.
            for name in file.keys() if listed is None else sorted(listed):
                tensor, ours = file.get_slice(name), families.our_name(name)
                if ours.startswith(unread):
                    continue
                if tensor.get_dtype() not in FLOATS:
                    raise WeightsError(
                        f"{path} has {name} in {tensor.get_dtype()}: a quantized "
                        "model. Fetch one in bfloat16."
                    )
                tensors[ours] = tensor
        yield tensors


def check_shapes(shapes, expected, redundant, place):
    """Refuses tensors that are not those of a config.

    Args:
      shapes, expected: {name: shape}.
      redundant: names that may be there, too.
      place: where they are, for the message.
    """
    missing = sorted(expected.keys() - shapes.keys())
    extra = sorted(shapes.keys() - expected.keys() - redundant)
    extra = [name for name in extra if not FREQUENCIES.fullmatch(name)]
    wrong = [name for name in expected if shapes.get(name) != expected[name]]
    if names := missing or extra or wrong:
        has, should = (x.get(names[0], "none") for x in (shapes, expected))
        raise WeightsError(
            f"The weights in {place} and its config do not belong together: "
            f"{len(missing)} tensors are missing, and there is no place for "
            f"{len(extra)}: {names[0]:.80} should have shape {should}, and has {has}. "
            "Fetch it again."
        )


def _read(tensors, shapes, config, dtype, mesh):
    """The state of the model; a device's part of a weight is read when it is placed."""

    def read(path, shape):
        keys = [key.key for key in path]
        names = [name for _, name in families.weight_names(keys, config)]
        slices = [(name, tensors[name]) for name in names]
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        place = here if mesh is None else layout(path, shape.shape, mesh)
        part = _stacked if "layers" in keys else _single
        part = functools.partial(part, slices, shape.shape, jnp.dtype(dtype))
        # Wait: until a copy is done, both of it are in memory.
        array = jax.make_array_from_callback(shape.shape, place, part)
        return jax.block_until_ready(array)

    arrays = jax.tree_util.tree_map_with_path(read, nnx.to_pure_dict(shapes))
    nnx.replace_by_pure_dict(shapes, arrays)
    return shapes


def _single(slices, shape, dtype, index):
    """A part of a weight that is one tensor in the file."""
    name, tensor = slices[0]
    if len(tensor.get_shape()) == 4:  # a small kernel of patches, to us a matrix
        part = tensor[:].transpose(2, 3, 1, 0).reshape(shape)[index]
    else:
        part = tensor[index]
    return _cast(part, dtype, name)


def _kernel(shape):
    """(height, width, colours, C) of the kernel that a matrix (p · p · 3, C) is."""
    side = math.isqrt(shape[0] // 3)
    return side, side, 3, shape[1]


def _stacked(slices, shape, dtype, index):
    """A part of a weight whose layers are separate tensors, matrices transposed."""
    ranges = [range(size)[i] for size, i in zip(shape, index, strict=True)]
    stacked = np.empty([len(r) for r in ranges], dtype)
    for slot, layer in enumerate(ranges[0]):  # a bound is one number a layer
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


def fingerprint(folder) -> str:
    """A checksum of a model's weights, wherever they lie and however they are split.

    It covers the name, dtype and shape of each tensor, and its numbers: all of a small
    tensor, four rows of a larger one, from the first to the last. So it takes less than
    a second. It changes when a model is trained or rounded, but not when other rows
    alone change.

    Args:
      folder: as for `weights.load`, or of adapters, as for `lora.load`.
    Returns:
      16 hexadecimal digits.
    Raises:
      WeightsError: a file is missing or damaged.
    """
    folder = pathlib.Path(folder)
    paths = [folder / ADAPTER_WEIGHTS]
    if not paths[0].is_file():
        paths = [path for path, _ in weight_files(folder)]
    digests: dict[str, bytes] = {}
    for path in paths:
        with opened(path) as file:
            for name in file.keys():
                digests[families.our_name(name)] = _digest(file.get_slice(name))
    total = hashlib.sha256()
    for name in sorted(digests):
        total.update(name.encode() + b"\0" + digests[name])
    return total.hexdigest()[:16]


def _digest(tensor) -> bytes:
    """Of a tensor's dtype, shape and some numbers."""
    shape = tensor.get_shape()
    digest = hashlib.sha256(f"{tensor.get_dtype()}{list(shape)}".encode())
    if math.prod(shape) <= SMALL:
        digest.update(tensor[...].tobytes())
    else:
        for i in range(SAMPLED):
            row = i * (shape[0] - 1) // (SAMPLED - 1)
            digest.update(tensor[row : row + 1].tobytes())
    return digest.digest()
