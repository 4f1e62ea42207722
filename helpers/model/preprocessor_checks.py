"""Whether a folder wants its pictures prepared as they are here: by one fixed way."""

import pathlib

import numpy as np

from helpers.model.folder import read_json
from helpers.model.vision_config import UnsupportedModel

# How a byte becomes the number that a tower sees; only their sum matters.
PIXELS = ("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std")
# What has to be as it is here where this family's processor has it at all.
SAME = (
    "do_resize",
    "size",
    "resample",
    "do_pan_and_scan",
    "patch_size",
    "pooling_kernel_size",
    "max_soft_tokens",
)
IDENTITY = {"image_mean": 0.0, "image_std": 1.0}


def check(folder, tower):
    """Refuses a folder whose pictures would be other numbers in transformers.

    Args:
      folder: with a `preprocessor_config.json`, a `processor_config.json` that has the
        same in it, as transformers 5 writes it, both, or neither.
      tower: a VisionConfig, or Gemma 4's.
    Raises:
      UnsupportedModel: naming the file and the setting.
      WeightsError: a file is no JSON.
    """
    folder = pathlib.Path(folder)
    ours = tower.preprocessor()
    same = list(SAME)
    if "size" in ours:  # else the number of tokens follows from the picture
        same.append("image_seq_length")
    for name in ("preprocessor_config.json", "processor_config.json"):
        if not (folder / name).is_file():
            continue
        said = read_json(folder / name)
        if name == "processor_config.json":
            said = said.get("image_processor") or {}
        if not isinstance(said, dict):
            raise UnsupportedModel(f"{name}: image_processor is {said!r}.")
        # null is what the processor does unless told.
        said = {key: value for key, value in said.items() if value is not None}
        for key in same:
            if key in ours and said.get(key, ours[key] or False) != (
                ours[key] or False
            ):
                _refuse(name, key, said, ours)
        if not np.allclose(_line(said, ours), _line({}, ours), 1e-6, 1e-9):
            odd = [x for x in PIXELS if x in said and said[x] != ours.get(x)]
            _refuse(name, odd[0], said, ours)


def _refuse(name, key, said, ours):
    raise UnsupportedModel(
        f"{name}: {key}={said[key]!r}, and pictures are prepared with "
        f"{ours.get(key)!r} here. Load the model with vision=False and give it no "
        "pictures; or correct the file, if it is another model's."
    )


def _line(said, ours):
    """What a byte is multiplied by, and what is added, for each colour: (2, 3)."""
    settings = IDENTITY | ours | said
    factor = settings["rescale_factor"] if settings["do_rescale"] else 1.0
    chosen = settings if settings["do_normalize"] else IDENTITY
    try:
        mean, std = (
            np.broadcast_to(np.asarray(chosen[name], float), 3) for name in IDENTITY
        )
        with np.errstate(all="ignore"):
            return np.stack([float(factor) / std, -mean / std])
    except (TypeError, ValueError):
        return np.full((2, 3), np.nan)  # which is like nothing else
