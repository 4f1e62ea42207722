"""GGUF files, read by the package `gguf`, and what they call a decoder's tensors.

The format is described in github.com/ggml-org/ggml/blob/master/docs/gguf.md. Two things
differ from Hugging Face's folders (llama.cpp's convert_hf_to_gguf.py): the rows of
Llama's queries and keys stand in the order in which its rotation takes them, in pairs;
and Gemma 3's norms are written with the 1 that is added to them.
"""

import pathlib

import gguf
import numpy as np

from helpers.model import families
from helpers.model.config import ModelConfig
from helpers.model.folder import WeightsError, require_finite

ROPE = "rope_freqs.weight"  # by how much each rotary frequency is divided
AT_ONCE = 2**24  # numbers decoded at once: some tensors are half a model
FETCH = "Fetch the file again, or take the model's folder of safetensors."


class GGUFError(WeightsError):
    """A GGUF file is damaged, cut off, or of a kind that is not read here."""


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


# --- names and layouts of tensors ---


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
