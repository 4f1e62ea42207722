"""Folders of adapters as `peft` has them: a JSON of settings, and safetensors."""

import json
import pathlib
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

from helpers.model import families
from helpers.model.config import KNOWN, SEES, ModelConfig
from helpers.model.folder import (
    ADAPTERS,
    FLOATS,
    MODEL,
    WeightsError,
    opened,
    read_json,
    require_finite,
    write,
    write_json,
)
from helpers.model.transformer import weight_shapes

WEIGHTS, PICKLE = "adapter_model.safetensors", "adapter_model.bin"
PRINT = "base weights"  # in the metadata: their fingerprint
NO_TOWERS = ".*(vision|audio)_tower.*"
BEFORE, AFTER = "base_model.model.", ".lora_{}.weight"
# Settings that are read here, or that change no number. Any other one that is on, such
# as DoRA, makes other numbers of the same tensors.
KNOWN_SETTINGS = set(families.FIELDS["peft"]["known"])
# These initialisations change the base as well, so that the adapters fit another.
OTHER_BASES = ("pissa", "olora", "corda", "loftq", "lora_ga")


class Adapters(NamedTuple):
    """What a folder holds.

    factor: what the adapters' output is multiplied by. base: words on how the base
    that they were trained on was quantized, "" if it was not.
    arrays: {path of the matrix: (a (layers, in, rank), b (layers, rank, out))},
      float32, paths as ("layers", "q").
    """

    rank: int
    factor: float
    base: str
    arrays: dict[tuple[str, ...], tuple[np.ndarray, ...]]


def save(
    folder, adapters: Adapters, config: ModelConfig, base: str, fingerprint: str = ""
) -> None:
    """Writes a folder that `peft` and vLLM load on the base.

    Args:
      base: id or folder of the base model, noted in adapter_config.json.
      fingerprint: as for `lora.save`, noted in the metadata; "": not known.
    Raises:
      WeightsError: the disk is full, say, or a model is in that folder; or adapters
        are not finite.
    """
    towers = config.vision is not None or _has_towers(base, config)
    inside = BEFORE + ("model.language_model." if towers else "model.")  # since 4.52
    tensors = {}
    for path, parts in adapters.arrays.items():
        for part in parts:
            require_finite(part, f"adapters of {path[-1]}")
        for layer, name in families.weight_names(path, config):
            name = inside + name.removeprefix("model.").removesuffix(".weight")
            for letter, array in zip("AB", parts, strict=True):
                tensors[name + AFTER.format(letter)] = array[layer].T.copy()
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base),
        "r": adapters.rank,
        "lora_alpha": adapters.factor * adapters.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.split(".")[-3] for name in tensors}),
    }
    if towers:  # their matrices have the same names
        settings["exclude_modules"] = NO_TOWERS
    about = {"format": "pt", "base": adapters.base, PRINT: fingerprint}
    about = {name: text for name, text in about.items() if text}

    def fill(aside):
        save_file(tensors, aside / WEIGHTS, metadata=about)
        write_json(settings, aside / ADAPTERS)

    write(folder, ADAPTERS, fill)


def _has_towers(base, config):
    """Whether transformers opens this base with towers, though we read its text half.

    An id whose config is not on this machine has towers if it is a Gemma 4, as all
    have that Google published, or of the shape of a model that is known to.

    Raises:
      WeightsError: it is a Gemma 4, and nobody says which.
    """
    if config.gemma4 and not base:
        raise WeightsError(
            "What adapters of a Gemma 4 are called depends on its towers. Pass base=, "
            "the id or folder that the model was loaded from."
        )
    from huggingface_hub import errors, try_to_load_from_cache  # a second to import

    path = pathlib.Path(base) / MODEL
    try:
        if not path.is_file() and (cached := try_to_load_from_cache(str(base), MODEL)):
            path = pathlib.Path(str(cached))
        kind = json.loads(path.read_text("utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError, errors.HFValidationError):
        return config.gemma4 is not None or config in map(KNOWN.get, SEES)
    return kind in ("gemma3", "gemma4")


def read(folder, config: ModelConfig, targets) -> Adapters:
    """Reads a folder of `save` or of `peft`, for a model of this shape.

    Args:
      targets: the names of matrices that may have adapters.
    Raises:
      WeightsError: a file is missing or damaged, the adapters are of another kind or
        of another model, or some are missing.
    """
    folder = pathlib.Path(folder)
    settings = read_settings(folder)
    rank, scale = settings["r"], settings["lora_alpha"]
    factor = scale / (rank**0.5 if settings.get("use_rslora") else rank)
    tensors, about = _tensors(folder)
    places = {
        path: (matrix.shape, [name for _, name in families.weight_names(path, config)])
        for path, matrix in weight_shapes(config).items()
        if path[0] == "layers" and path[-1] in targets
    }
    adapted = {
        path[-1]
        for path, (_, names) in places.items()
        if any((name, x) in tensors for name in names for x in "AB")
    }
    arrays = {}
    for path, ((_, rows, columns), names) in places.items():
        if path[-1] not in adapted:
            continue
        pairs = [[tensors.pop((name, x), None) for x in "AB"] for name in names]
        shapes = (rank, rows), (columns, rank)
        for name, pair in zip(names, pairs, strict=True):
            if tuple(getattr(x, "shape", None) for x in pair) != shapes:
                has = " and ".join(str(getattr(x, "shape", "none")) for x in pair)
                raise WeightsError(
                    f"{folder}: {name} should have adapters of shape {shapes}, and has "
                    f"{has}: some are missing, or they are of another model."
                )
        arrays[path] = tuple(
            np.stack([part.T for part in parts]).astype(np.float32)
            for parts in zip(*pairs, strict=True)
        )
        for array in arrays[path]:
            require_finite(array, f"adapters of {path[-1]} in {folder}")
    if tensors:
        name, letter = min(tensors)
        raise WeightsError(
            f"{folder} has {len(tensors)} tensors that this model has no place for, "
            f"first lora_{letter} of {name}. Load the model that they were trained on."
        )
    if not arrays:
        raise WeightsError(f"{folder} has no adapters of the decoder's matrices.")
    return Adapters(rank, factor, about.get("base", ""), arrays)


def base_of(folder) -> str:
    """The id or folder of the model that a folder's adapters were trained on.

    Raises:
      WeightsError: as `read`, for its settings.
    """
    settings = read_settings(pathlib.Path(folder))
    return str(settings.get("base_model_name_or_path") or "a base without a name")


def fingerprint_of(folder) -> str:
    """The fingerprint of the weights that a folder's adapters were trained on.

    Returns:
      As it was given to `save`; "" if none was, as in every folder of `peft`.
    Raises:
      WeightsError: as `read`, for its file of weights.
    """
    with _opened(pathlib.Path(folder)) as file:
        return (file.metadata() or {}).get(PRINT, "")


def _tensors(folder):
    """{(our name of the matrix, "A" or "B"): array}, and the file's metadata."""
    path, tensors = folder / WEIGHTS, {}
    with _opened(folder) as file:
        for name in file.keys():
            stem, mark, letter = name.removesuffix(".weight").rpartition(".lora_")
            stem = families.our_name(stem.removeprefix(BEFORE) + ".weight")
            if not mark or letter not in ("A", "B") or (stem, letter) in tensors:
                raise WeightsError(f"{path} has {name}, which is no LoRA matrix.")
            if (kind := file.get_slice(name).get_dtype()) not in FLOATS:
                raise WeightsError(f"{path} has {name} in {kind}, not in floats.")
            tensors[stem, letter] = file.get_tensor(name)
        return tensors, file.metadata() or {}


def _opened(folder):
    """The file of weights, to read from."""
    path = folder / WEIGHTS
    if (folder / PICKLE).is_file() and not path.is_file():
        raise WeightsError(
            f"{folder} has no {WEIGHTS}, and {PICKLE} is a pickle, which is never "
            "opened here. peft's save_pretrained(folder) writes safetensors."
        )
    return opened(path)


def read_settings(folder: pathlib.Path) -> dict:
    """The content of adapter_config.json, if its adapters are plain LoRA.

    Raises:
      WeightsError: there is no such file, it is damaged, or a setting makes other
        numbers of the same tensors than are computed here.
    """
    path = folder / ADAPTERS
    if not path.is_file():
        raise WeightsError(
            f"{folder} has no {ADAPTERS}: it is not a folder of adapters (hub.fetch?)."
        )
    settings = read_json(path)
    if settings.get("peft_type") != "LORA":
        raise WeightsError(f"{path}: only LoRA adapters are read.")
    for name, value in settings.items():
        if value and name not in KNOWN_SETTINGS and (name, value) != ("bias", "none"):
            raise WeightsError(
                f"{path}: {name}={value!r} is not supported. Save what peft's "
                "merge_and_unload() returns, and load that folder with weights.load."
            )
    start = str(settings.get("init_lora_weights"))
    if start.lower().startswith(OTHER_BASES):
        raise WeightsError(
            f"{path}: init_lora_weights={start!r} changed the base, too."
        )
    return settings
