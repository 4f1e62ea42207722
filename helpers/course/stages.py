"""What a notebook begins with: where it runs, and the finished models of the walk."""

import pathlib
import sys

import jax
from safetensors import SafetensorError, safe_open

from helpers.course.syllabus import LESSONS, STAGES
from helpers.recipes.presets import Preset, preset
from helpers.runtime.platform import (
    ROOT,
    keep_programs,
    model_folder,
    multiply_as_written,
    where,
)

_SWITCH = {
    "colab": "Runtime → Change runtime type → v5e-1 TPU",
    "kaggle": "Settings → Accelerator → TPU v5e-8",
}


def banner(notebook: str) -> Preset:
    """Prints where this notebook runs and how long it should take.

    Programs that it compiles are cached in build/jax-cache from here on. Its small
    model multiplies in float32 on TPUs, too; recipes that load real weights change it.

    Args:
      notebook: its number, such as "07".
    Returns:
      The preset in force.
    """
    import flax  # for its version only; importing it takes most of a second

    keep_programs(ROOT / "build" / "jax-cache")
    multiply_as_written(notebook != "15")  # its model is a real one from the start
    chosen, lesson, place = preset(), LESSONS[notebook], where()
    minutes = lesson.minutes.get(chosen.name)
    expected = f"about {minutes} min" if minutes else "time not measured here"
    if minutes and chosen.name != "laptop":
        expected += " (planned, not measured)"
    print(f"{notebook} {lesson.title} · preset {chosen.name}: {expected}")
    devices = jax.devices()
    # Only a process's own devices know their memory; CPUs do not count it.
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    memory = f" of {limit / 2**30:.2f} GiB" if limit else ""
    print(
        f"{place}: {len(devices)} × {devices[0].device_kind}{memory} · "
        f"jax {jax.__version__}, flax {flax.__version__}, "
        f"Python {sys.version_info.major}.{sys.version_info.minor}"
    )
    if place != "laptop" and devices[0].platform != "tpu" and notebook != "15":
        print(
            f"No TPU here. {_SWITCH[place]}, then run again. Without one, last sections"
            " train 135M parameters for up to an hour; COURSE_PRESET=laptop leaves them"
            " out."
        )
    return chosen


def stage_folder(name: str) -> pathlib.Path:
    """The finished model of a stage: the learner's own if whole, else the shipped one.

    Raises:
      FileNotFoundError: there is neither. The message names the notebook that makes it,
        or the stages there are.
    """
    for folder in (model_folder(name), ROOT / "data" / "tiny" / name):
        if _is_whole(folder):
            return folder
    stages = [*STAGES, "student_base", "food_base", "game_base"]  # these are shipped
    if name not in stages:
        raise FileNotFoundError(
            f"There is no stage {name!r}. The stages are {', '.join(stages)}."
        )
    makers = [number for number, row in LESSONS.items() if name in row.stages]
    remedy = f"Run notebook {makers[0]} to its end" if makers else "Run `make tiny`"
    raise FileNotFoundError(
        f"{model_folder(name)} and data/tiny/{name} hold no whole model. {remedy}, or "
        "take a fresh clone of the course if data/tiny is missing."
    )


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether this is a Hugging Face folder whose weights are not truncated."""
    weights = folder / "model.safetensors"
    needed = (weights, folder / "config.json", folder / "tokenizer.json")
    if not all(path.is_file() for path in needed):
        return False
    try:
        with safe_open(weights, framework="numpy"):  # reads and checks the header only
            return True
    except (SafetensorError, OSError):
        return False


def upload_button(folder: pathlib.Path):
    """An ipywidgets button that saves the files which are uploaded in a folder."""
    import ipywidgets  # only notebooks have it

    def save(change):
        files = change["new"]
        if isinstance(files, dict):  # ipywidgets 7, as on Colab
            files = [{"name": name} | file for name, file in files.items()]
        for file in files:
            path = folder / pathlib.PurePath(file["name"]).name
            path.write_bytes(file["content"])
            print(f"saved as {path}: run the notebook from the next cell on")

    button = ipywidgets.FileUpload(description="Upload rows", multiple=False)
    button.observe(save, "value")
    return button
