"""Models from and to GGUF, the one-file format of llama.cpp, Ollama and LM Studio.

`to_folder` makes a Hugging Face folder of a file, its 4- or 8-bit blocks as the numbers
they stand for; `save` writes a model that was trained here. The package `gguf` reads
and writes the format (github.com/ggml-org/ggml/blob/master/docs/gguf.md). Two things
differ from Hugging Face's folders (llama.cpp's convert_hf_to_gguf.py): the rows of
Llama's queries and keys stand in the order in which its rotation takes them, in pairs;
and Gemma 3's norms are written with the 1 that is added to them.
"""

import pathlib
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from helpers.model import families, gguf_config, weights
from helpers.model.config import ModelConfig
from helpers.model.folder import (
    INDEX,
    MODEL,
    WeightsError,
    aside_in,
    require_finite,
    write,
    write_json,
)
from helpers.model.gguf_config import FETCH, ROPE, GGUFError
from helpers.runtime.distributed import on_first
from helpers.text import chat, gguf_tokenizer, rendering

AT_ONCE = 2**24  # numbers decoded at once: some tensors are half a model
LARGEST_FILE = 2**30  # bytes of safetensors, so that few of them are in memory at once
# What `save` writes, and how `general.file_type` calls it.
KINDS = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}
# The largest number that each holds; of 32 in Q8_0 the scale is in F16.
LARGEST = {kind: float(np.finfo(f"float{kind[1:]}").max) for kind in ("F32", "F16")}
LARGEST["Q8_0"] = 127 * LARGEST["F16"]


# --- a file, and what it calls a decoder's tensors ---


class _Reader(gguf.GGUFReader):
    """The package's reader, which would read past the end of a damaged file."""

    def _get(self, offset, dtype, count=1, *rest, **options):
        array = super()._get(offset, dtype, count, *rest, **options)
        if len(array) < int(count):
            raise ValueError("it ends early")
        return array


class GGUFFile:
    """A GGUF file whose head has been read; tensors are read one at a time.

    Attributes:
      fields: {key: value} of the metadata; arrays are lists.
      shapes: {tensor name: shape}, rows first as in NumPy.
    """

    def __init__(self, path):
        """Reads the head.

        Args:
          path: the file.
        Raises:
          GGUFError: it is a folder, or no whole GGUF file.
          FileNotFoundError: there is none.
        """
        self.path = pathlib.Path(path)
        if self.path.is_dir():
            raise GGUFError(f"{path} is a folder: pass the GGUF file in it.")
        try:
            reader = _Reader(self.path)
            self.fields = {key: x.contents() for key, x in reader.fields.items()}
        except OSError:
            raise
        except Exception as error:  # the package raises what comes
            raise GGUFError(
                f"{path} is damaged, cut off or no GGUF file ({error}). {FETCH}"
            ) from error
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.shapes = {
            name: tuple(tensor.shape.tolist()[::-1])
            for name, tensor in self._tensors.items()
        }

    def array(self, name: str) -> np.ndarray:
        """The numbers of a tensor, float32.

        Raises:
          GGUFError: they cannot be decoded.
          WeightsError: some are not finite.
        """
        tensor, shape = self._tensors[name], self.shapes[name]
        stored = tensor.data.reshape(-1, tensor.data.shape[-1])
        numbers = np.empty((len(stored), shape[-1]), np.float32)
        step = max(1, AT_ONCE // shape[-1])
        try:
            for i in range(0, len(stored), step):
                part = slice(i, i + step)
                numbers[part] = gguf.dequantize(stored[part], tensor.tensor_type)
        except NotImplementedError:
            raise GGUFError(
                f"{self.path} has {name} in {tensor.tensor_type.name}, which cannot be "
                "decoded here. Take another file of the model, such as Q8_0."
            ) from None
        require_finite(numbers, f"{name} of {self.path}")
        return numbers.reshape(shape)


def names_of(config: ModelConfig, names) -> dict[str, str]:
    """{name in a Hugging Face folder: name in a GGUF file} of some tensors."""
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    kind = kinds[families.FAMILIES[config.family].gguf]
    name_map = gguf.get_tensor_name_map(kind, config.layers)
    theirs = {name: name_map.get_name(name, (".weight", ".bias")) for name in names}
    return {  # Gemma 4's layer_scalar has no ending in folders
        ours: f"{name}.weight" if ours.endswith("layer_scalar") else str(name)
        for ours, name in theirs.items()
    }


def redundant(config: ModelConfig) -> set[str]:
    """Tensors that a file may hold beside those that are read."""
    names = families.redundant_names(config) - {families.OUTSIDE["head"]}
    return {ROPE, *names_of(config, names).values()}


def from_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """A tensor as a Hugging Face folder has it; `name` is the one in the GGUF file."""
    if heads := _paired_heads(name, config):
        pairs = array.reshape(heads, config.head_dim // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(array.shape)
    return array - 1 if _has_one(name, config) else array


def to_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """Undoes `from_gguf`."""
    if heads := _paired_heads(name, config):
        halves = array.reshape(heads, 2, config.head_dim // 2, -1)
        return halves.swapaxes(1, 2).reshape(array.shape)
    return array + 1 if _has_one(name, config) else array


def _paired_heads(name, config):
    """How many heads a tensor has whose rows stand in pairs; 0 for all others."""
    if config.family != "llama" or not name.startswith("blk."):
        return 0
    heads = {"attn_q": config.heads, "attn_k": config.kv_heads}
    return heads.get(name.split(".")[2], 0)


def _has_one(name, config):
    return config.norm_plus_one and name.endswith("norm.weight")


# --- from a file, and to one ---


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
        places = names_of(config, shapes)
        expected = {places[ours]: shape for ours, shape in shapes.items()}
        weights.check_shapes(file.shapes, expected, redundant(config), path)
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
                array = from_gguf(file.array(theirs), theirs, config)
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


def modelfile(tokenizer, name: str) -> str:
    """Ollama's Modelfile for a file of `save`, with the turns of the chat template.

    Args:
      tokenizer: the model's.
      name: of the GGUF file, which lies beside it.
    """
    user = {"role": "user", "content": rendering.MARKER}
    answer = {"role": "assistant", "content": rendering.UNKNOWN}
    prompt = rendering.render(tokenizer, [user])
    talk = rendering.render(tokenizer, [user, answer, user], False)
    first, begin = prompt.split(user["content"])
    between = talk.split(user["content"])[1].removeprefix(begin + answer["content"])
    whole = rendering.render(tokenizer, [user, answer], False)
    end = whole.partition(answer["content"])[2]
    turn = between.removeprefix(end)
    system = first.removesuffix(turn)  # the template's own, which stands there once
    if gguf_tokenizer.to_fields(tokenizer).get("tokenizer.ggml.add_bos_token"):
        system = system.removeprefix(tokenizer.bos_token)  # Ollama adds it
    content = "{{ .Content }}"
    return (
        f'FROM ./{name}\nTEMPLATE """{system}{{{{ range .Messages }}}}'
        f'{{{{ if eq .Role "user" }}}}{turn}{content}{begin}'
        f'{{{{ else if eq .Role "assistant" }}}}{content}{end}'
        '{{ end }}{{ end }}"""\nPARAMETER temperature 0\n'
    )


def _write(path, config, fields, tensors, kind):
    with aside_in(path.parent) as aside:
        name = families.FAMILIES[config.family].gguf
        writer = gguf.GGUFWriter(aside / path.name, name)
        for key, value in fields.items():
            kind_of_value = gguf.GGUFValueType.get_type(value)
            if kind_of_value == gguf.GGUFValueType.INT32:  # llama.cpp reads no signs
                kind_of_value = gguf.GGUFValueType.UINT32
            writer.add_key_value(key, value, kind_of_value)
        for ours, theirs in names_of(config, list(tensors)).items():
            array = np.asarray(tensors.pop(ours), np.float32)  # else all stay
            _add_tensor(writer, theirs, to_gguf(array, theirs, config), kind)
        if (factors := gguf_config.rope_divisors(config)) is not None:
            _add_tensor(writer, ROPE, factors, "F32")
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
