"""Writing a folder of weights so that nobody ever reads half of it, or two mixed."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil

import numpy as np
from safetensors import SafetensorError, safe_open

from helpers.model.families import BOUNDS
from helpers.runtime.distributed import on_first

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"model-\d{5}(-of-\d{5})?\.safetensors")
# Without its mark nobody takes a folder for one of this kind.
MODEL, ADAPTERS = "config.json", "adapter_config.json"
# What readers take for more of a tokenizer.json that lies beside it.
TOKENIZER = "tokenizer.json"
BESIDE_TOKENIZER = set(
    "special_tokens_map.json added_tokens.json tokenizer_config.json tokenizer.model "
    "vocab.json merges.txt chat_template.jinja chat_template.json "
    "additional_chat_templates generation_config.json".split()
)
PART = ".part"  # what is being written
FLOATS = ("F64", "F32", "F16", "BF16")
ROWS = 4096  # of a matrix, checked at once


class WeightsError(ValueError):
    """A model folder is incomplete, damaged, or not what its config.json says."""


def write(folder, mark, fill):
    """Fills a folder: files are made aside, then renamed; process 0 does it.

    Args:
      folder: made if missing; files of the same names are replaced, and with a model
        weights and parts of a tokenizer that would be read together with the new ones.
      mark: MODEL or ADAPTERS, the file that leaves first and comes last.
      fill: writes the files, that one included, into the folder it is given.
    Raises:
      WeightsError: the disk is full, say, or the folder is of the other kind. Until
        all new files are written, those from before stay as they are.
    """
    on_first(lambda: _write(pathlib.Path(folder), mark, fill))


def read_json(path) -> dict:
    """The JSON object in a file.

    Raises:
      WeightsError: there is none in it.
    """
    try:
        parsed = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise WeightsError(f"{path} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise WeightsError(f"{path} holds a {type(parsed).__name__}, not an object.")
    return parsed


def require_finite(array, name):
    """Refuses a weight with an infinite number in it, or with none.

    A bound of Gemma 4's tower may be infinite: it bounds nothing, as all do at first.

    Args:
      array: of NumPy.
      name: of it, in a folder or in the model.
    """
    bound = name.endswith(BOUNDS)
    widest = -np.inf if name.endswith("min") else np.inf
    rows = array.reshape(-1, *array.shape[-1:])
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        if not (np.isfinite(part) | (bound & (part == widest))).all():
            raise WeightsError(
                f"{name} has numbers that are not finite, in {array.dtype}. Fetch it"
                " again, or take bfloat16 or float32 in place of float16."
            )


@contextlib.contextmanager
def opened(path):
    """A file of safetensors, to read from.

    Raises:
      WeightsError: it is missing, or damaged, be it where its tensors are read.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except FileNotFoundError:
        raise WeightsError(
            f"{path.parent} has no {path.name}. Fetch it again."
        ) from None
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is damaged ({error}). Delete it and fetch or make it again."
        ) from None


def place_of(model):
    """A model's folder, however it is spelled, or its id."""
    folder = pathlib.Path(model).expanduser()
    return folder.resolve() if folder.is_dir() else model


def write_json(content, path):
    """Writes what JSON can hold, as transformers formats it."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


@contextlib.contextmanager
def aside_in(folder):
    """A new folder inside of a folder, for files that are then renamed out of it.

    Whoever saves there meanwhile waits until it is gone. What a killed save left behind
    goes first; its lock ended with its process.

    Raises:
      WeightsError: something could not be written.
    """
    aside = folder / PART
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a disk without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            os.close(lock)
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{folder} could not be written ({error}). Free some space, or choose a "
            "folder that you may write to, and save again."
        ) from None


def _write(folder, mark, fill):
    other, kind = (ADAPTERS, "adapters") if mark == MODEL else (MODEL, "a model")
    if (folder / other).exists():
        raise WeightsError(
            f"{folder} holds {kind} ({other}), and readers would mix both: choose "
            "another folder."
        )
    with aside_in(folder) as aside:
        fill(aside)
        _move_in(aside, folder, mark)


def _move_in(aside, folder, mark):
    """Renames the new files into the folder.

    The mark leaves first and comes last, so whoever reads meanwhile, or after a save
    that was killed, finds no model, and never the files of two.
    """
    new = {path.name for path in aside.iterdir()}
    _remove(folder / mark)
    for name in sorted(new | _leftovers(new, folder, mark)):
        _remove(folder / name)
    for name in sorted(new, key=lambda name: name == mark):
        (aside / name).replace(folder / name)


def _leftovers(new, folder, mark):
    """Names of an earlier model that would be read as if they were of the new one."""
    if mark != MODEL:
        return set()
    shards = (path.name for path in folder.glob("model-*.safetensors"))
    names = {WHOLE, INDEX, *filter(SHARD.fullmatch, shards)}
    return names | BESIDE_TOKENIZER if TOKENIZER in new else names


def _remove(path):
    """Removes a file, or a folder of chat templates, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
