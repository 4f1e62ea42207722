"""What tells the weights of one model folder from those of another, and is cheap."""

import hashlib
import math
import pathlib

from safetensors import SafetensorError, safe_open

from helpers.model import names, weights
from helpers.model.folder import WeightsError
from helpers.model.peft_folder import WEIGHTS

ROWS, SMALL = 4, 4096  # rows of a tensor that are looked at; numbers of a small one


def of_folder(folder) -> str:
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
    paths = [path for path, _ in weights.weight_files(pathlib.Path(folder))]
    return _of_files(paths)


def of_adapters(folder) -> str:
    """The same of the adapters in a folder of `lora.save`."""
    return _of_files([pathlib.Path(folder) / WEIGHTS])


def _of_files(paths):
    told: dict[str, bytes] = {}
    for path in paths:
        try:
            with safe_open(path, framework="numpy") as file:
                told |= {
                    names.ours(name): _told(file.get_slice(name))
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
        for i in range(ROWS):
            row = i * (shape[0] - 1) // (ROWS - 1)
            found.update(tensor[row : row + 1].tobytes())
    return found.digest()
