"""Models from and to GGUF, the one-file format of llama.cpp, Ollama and LM Studio.

`to_folder` makes a Hugging Face folder of a file, its 4- or 8-bit blocks as the numbers
they stand for; `save` writes a model that was trained here.
"""

import pathlib
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from helpers.model import gguf_config, gguf_file, weights
from helpers.model.families import FAMILIES
from helpers.model.folder import (
    INDEX,
    MODEL,
    WeightsError,
    aside_in,
    write,
    write_json,
)
from helpers.model.gguf_file import FETCH, GGUFError, GGUFFile
from helpers.runtime.distributed import on_first
from helpers.text import chat, gguf_tokenizer

LARGEST_FILE = 2**30  # bytes of safetensors, so that few of them are in memory at once
# What `save` writes, and how `general.file_type` calls it.
KINDS = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}
# How metadata are stored.
TYPES = {
    bool: gguf.GGUFValueType.BOOL,
    int: gguf.GGUFValueType.UINT32,
    float: gguf.GGUFValueType.FLOAT32,
    str: gguf.GGUFValueType.STRING,
    list: gguf.GGUFValueType.ARRAY,
}
# The largest number that each holds; of 32 in Q8_0 the scale is in F16.
LARGEST = {kind: float(np.finfo(f"float{kind[1:]}").max) for kind in ("F32", "F16")}
LARGEST["Q8_0"] = 127 * LARGEST["F16"]


def to_folder(path, folder) -> pathlib.Path:
    """Writes the model of a GGUF file as a Hugging Face folder, in float32.

    Args:
      path: the file.
      folder: made if missing; tokenizer and chat template come with it.
    Returns:
      The folder.
    Raises:
      GGUFError: the file is damaged or cut off, or holds a model or a tokenizer that is
        not known here.
      WeightsError: some numbers are not finite, or the disk is full, say.
    """
    file = GGUFFile(path)
    try:
        config = gguf_config.read_config(file)
        content = weights.config_json(config)
        tokenizer = gguf_tokenizer.to_tokenizer(file.fields)
        weights.check_room(tokenizer, config)
        ids = weights.token_ids(tokenizer)
        shapes = weights.file_shapes(config)
        places = gguf_file.names_of(config, shapes)
        expected = {places[ours]: shape for ours, shape in shapes.items()}
        redundant = gguf_file.redundant(config)
        weights.check_shapes(file.shapes, expected, redundant, path)
    except WeightsError:
        raise
    except Exception as error:  # damaged metadata, or a template, may raise anything
        raise GGUFError(
            f"{path}: its metadata or chat template cannot be used "
            f"({type(error).__name__}: {str(error)[:200]}). {FETCH}"
        ) from error

    def fill(aside):
        chat.save_tokenizer(tokenizer, aside)
        write_json(ids, aside / "generation_config.json")
        write_json(content | ids | {"torch_dtype": "float32"}, aside / MODEL)
        index: dict[str, str] = {}
        for number, part in enumerate(_parts(file, places), 1):
            name = f"model-{number:05d}.safetensors"
            arrays = {}
            for ours, theirs in part:
                array = gguf_file.from_gguf(file.array(theirs), theirs, config)
                arrays[ours] = np.ascontiguousarray(array)
            save_file(arrays, aside / name, metadata={"format": "pt"})
            index |= dict.fromkeys(arrays, name)
        write_json({"metadata": {}, "weight_map": index}, aside / INDEX)

    write(folder, MODEL, fill)
    return pathlib.Path(folder)


def _parts(file, places):
    """[(our name, theirs)] of each file of safetensors."""
    part: list[tuple[str, str]] = []
    size = 0
    for ours, theirs in places.items():
        more = 4 * int(np.prod(file.shapes[theirs]))
        if part and size + more > LARGEST_FILE:
            yield part
            part, size = [], 0
        part.append((ours, theirs))
        size += more
    yield part


def save(model, path, tokenizer, kind: str = "F16") -> None:
    """Writes a model as one GGUF file, which is made aside and then renamed.

    It holds what the model computes, as `weights.save` does, adapters included. Norms
    and biases stay in float32.

    Args:
      model: a Transformer without vision.
      path: the file; one that is there is replaced.
      tokenizer: goes into the file, with its chat template.
      kind: how matrices are stored: "F32", "F16" or "Q8_0" (8 bits, a scale for 32).
    Raises:
      GGUFError: llama.cpp knows no such tokenizer or shape, or numbers are too large
        for the kind.
      WeightsError: the tokenizer is another model's; or the disk is full, say.
    """
    config = model.config
    if kind not in KINDS:
        raise GGUFError(f"kind is {kind!r}: choose one of {', '.join(KINDS)}.")
    if config.vision:
        raise GGUFError("A model with vision has no GGUF file here: save a folder.")
    fields: dict[str, Any] = {
        "general.file_type": int(KINDS[kind]),
        "general.quantization_version": gguf.GGML_QUANT_VERSION,
    }
    fields |= gguf_config.config_fields(config)
    try:
        fields |= gguf_tokenizer.to_fields(tokenizer)
    except ValueError as error:
        raise GGUFError(str(error)) from None
    weights.check_room(tokenizer, config)
    tokens, kinds = (fields[f"tokenizer.ggml.{x}"] for x in ("tokens", "token_type"))
    tokens, kinds = (x[: config.vocab_size] for x in (tokens, kinds))  # see check_room
    spare = range(len(tokens), config.vocab_size)  # rows of the table without an entry
    fields["tokenizer.ggml.tokens"] = [*tokens, *(f"<unused_{i}>" for i in spare)]
    kinds = kinds + [gguf_tokenizer.UNUSED] * len(spare)
    fields["tokenizer.ggml.token_type"] = kinds
    tensors = weights.folder_tensors(model)
    on_first(lambda: _write(pathlib.Path(path), config, fields, tensors, kind))


def _write(path, config, fields, tensors, kind):
    with aside_in(path.parent) as aside:
        writer = gguf.GGUFWriter(aside / path.name, FAMILIES[config.family].gguf)
        for key, value in fields.items():
            writer.add_key_value(key, value, TYPES[type(value)])
        for ours, theirs in gguf_file.names_of(config, list(tensors)).items():
            array = np.asarray(tensors.pop(ours), np.float32)  # else all stay
            _add_tensor(writer, theirs, gguf_file.to_gguf(array, theirs, config), kind)
        if (factors := gguf_config.rope_divisors(config)) is not None:
            _add_tensor(writer, gguf_file.ROPE, factors, "F32")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        (aside / path.name).replace(path)


def _add_tensor(writer, name, array, kind):
    if array.ndim < 2 or array.shape[-1] % 32:
        kind = "F32"
    chosen = gguf.GGMLQuantizationType[kind]
    largest = max(array.max(), -array.min())  # without a copy: Gemma 4's are large
    if largest > LARGEST[kind]:
        raise GGUFError(
            f"{name} has numbers beyond {kind}'s {LARGEST[kind]:g}. Save it as F32."
        )
    writer.add_tensor(name, gguf.quantize(array, chosen), raw_dtype=chosen)
