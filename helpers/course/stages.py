"""The finished models of the walk: the learner's own, else the shipped ones."""

import pathlib

from safetensors import SafetensorError, safe_open

from helpers.course.syllabus import LESSONS, STAGES
from helpers.runtime.platform import ROOT, model_folder


def stage_folder(name: str) -> pathlib.Path:
    """A finished model of the stage `name`: the learner's own, else the shipped one.

    Raises:
      FileNotFoundError: there is neither; says which notebook makes it, or which
        stages there are.
    """
    for folder in (model_folder(name), ROOT / "data" / "tiny" / name):
        if _is_whole(folder):
            return folder
    stages = [*STAGES, "student_base", "food_base"]  # the last two are only shipped
    if name not in stages:
        raise FileNotFoundError(
            f"There is no stage {name!r}, and no model in {model_folder(name)}. The "
            f"stages are {', '.join(stages)}."
        )
    makers = [number for number, row in LESSONS.items() if name in row.stages]
    remedy = f"Run notebook {makers[0]} to its end" if makers else "Run `make tiny`"
    raise FileNotFoundError(
        f"There is no finished model of the stage {name!r}: neither in "
        f"{model_folder(name)} nor in data/tiny/{name}. {remedy}, or take a fresh "
        "clone of the course if data/tiny is missing."
    )


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether a Hugging Face folder is there, and its weights are not cut short."""
    weights = folder / "model.safetensors"
    needed = (weights, folder / "config.json", folder / "tokenizer.json")
    if not all(path.is_file() for path in needed):
        return False
    try:
        with safe_open(weights, framework="numpy"):  # reads and checks the header only
            return True
    except (SafetensorError, OSError):
        return False
