"""The adapters that the stages on real weights end with, kept for the next stage."""

import pathlib
import re

from helpers import runtime
from helpers.model import peft_folder, weights
from helpers.model.folder import ADAPTERS, WeightsError, place_of
from helpers.recipes.presets import Preset

STAGES = (
    *("sft", "grpo", "gspo", "food_sft", "food_grpo", "student"),  # of notebooks
    # Of scripts/real.py.
    *("sft_control", "grpo_one_step", "sft_with_tool", "tool_grpo", "tool_student"),
    *("gsm8k_sft", "gsm8k_grpo", "gsm8k_tool_grpo"),
)


def adapters_folder(stage: str, preset: Preset) -> pathlib.Path:
    """Where a preset's adapters of a stage are kept on this machine.

    Raises:
      ValueError: the stage's name cannot be part of the name of a folder.
    """
    if not isinstance(stage, str) or not re.fullmatch(r"\w[\w-]*", stage):
        raise ValueError(
            f"The stage {stage!r} cannot name a folder: take letters, digits, _ and -, "
            'such as "sft".'
        )
    return runtime.model_folder(f"{stage}_{preset.name}")


def trained_here(stage: str, preset: Preset) -> bool:
    """Whether a stage of a preset has been trained on this machine."""
    return (adapters_folder(stage, preset) / ADAPTERS).is_file()


def as_start(stage: str, preset: Preset) -> str:
    """A stage and a fingerprint of its adapters, which those after it are kept with."""
    return f"{stage} {weights.adapters_fingerprint(adapters_folder(stage, preset))}"


def lost_start(stage: str, preset: Preset) -> str:
    """The stage that one went on from, or an earlier one, if it was trained anew since.

    Returns:
      "" if the adapters of all of them are as they were, or none was noted.
    Raises:
      WeightsError: adapters are missing or damaged.
    """
    while noted := peft_folder.started_from(adapters_folder(stage, preset)):
        before = noted.split()[0]
        if before == stage:  # it was trained on under its own name
            return ""
        if not trained_here(before, preset) or as_start(before, preset) != noted:
            return before
        stage = before
    return ""


def find(stage: str, preset: Preset, fingerprint: str) -> pathlib.Path | None:
    """The folder of a stage's adapters; None: the stage was not trained here yet.

    Args:
      fingerprint: of the weights that they are to go on from; "": not known.
    Raises:
      ValueError: the course has no such stage, and none was kept under that name.
      WeightsError: they were trained on other weights; or, where no fingerprint was
        kept with them, on a model of another name or folder.
    """
    ending = f"_{preset.name}"
    kept = [
        path.parents[1].name.removesuffix(ending)
        for path in sorted(runtime.run_folder("").glob(f"*{ending}/model/{ADAPTERS}"))
    ]
    if stage not in (*STAGES, *kept):
        raise ValueError(
            f"There is no stage {stage!r}. The course has {', '.join(STAGES)}; kept "
            f"here, with the preset {preset.name}: {', '.join(kept) or 'none yet'}."
        )
    if stage not in kept:
        return None
    folder = adapters_folder(stage, preset)
    base, was = peft_folder.base_of(folder), peft_folder.fingerprint_of(folder)
    if was and fingerprint:
        if was == fingerprint:
            return folder
        why = "whose weights are others"
        remedy = "Put back the weights that they were trained on"
    elif place_of(base) == place_of(preset.model):
        return folder
    else:
        why = "and they were kept without a fingerprint of its weights"
        remedy = "If it is the same model, give the preset that name"
    raise WeightsError(
        f"{folder} has adapters of {base}, and the preset {preset.name} trains "
        f"{preset.model}, {why}. {remedy}, or train {stage} with this model, with "
        "COURSE_BUILD set to another folder."
    )
