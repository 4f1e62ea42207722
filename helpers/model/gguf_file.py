"""The GGUF container: one file of metadata and tensors, read by the package `gguf`.

The format is described in github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import pathlib

import gguf
import numpy as np

from helpers.model.folder import WeightsError, require_finite

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
