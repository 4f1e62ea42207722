"""The stages of `scripts.real`: what trains each, and what it goes on from."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import nbformat

from helpers.model import peft_folder
from helpers.recipes import maths, presets
from helpers.rewards.functions import RewardSet, correct, format_reward
from scripts import real_gsm8k, real_one_step, real_sft, real_tool

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = {"sft": "04_sft", "grpo": "07_grpo", "gspo": "08_gspo"}
NOTEBOOKS |= {"student": "11_distillation"}


class NotTrained(RuntimeError):
    """A stage would go on from another model than it says."""


class Stage(NamedTuple):
    """A row of the table: what trains it, and how it is asked.

    Attributes:
      train: `train(preset, seed)`; None: an earlier stage has trained it.
      adapters: whose are asked.
      after: the stages whose adapters the training goes on from, or learns from.
      calculator: whether they are asked with one.
    """

    train: Callable[[presets.Preset, int], None] | None
    adapters: str
    after: tuple[str, ...] = ()
    calculator: bool = False


def of_notebook(stage: str) -> Stage:
    """A stage that is the last section of a notebook."""

    def train(preset, seed):
        names = section(stage)
        names["seed"] = seed
        print(names["on_real_weights"](preset), flush=True)

    return Stage(train, stage, () if stage == "sft" else ("sft",))


STAGES = {stage: of_notebook(stage) for stage in NOTEBOOKS} | {
    "sft_control": Stage(real_sft.control, "sft_control"),
    "grpo_one_step": Stage(real_one_step.grpo, "grpo_one_step", ("sft",)),
    "tool_sft": Stage(None, "sft", calculator=True),  # it is lent one
    "sft_with_tool": Stage(real_tool.sft, "sft_with_tool", calculator=True),
    "tool_grpo": Stage(real_tool.grpo, "tool_grpo", ("sft",), calculator=True),
    "tool_grpo_alone": Stage(None, "tool_grpo"),
    "tool_student": Stage(real_tool.student, "tool_student", ("tool_grpo", "sft")),
    "gsm8k_sft": Stage(real_gsm8k.sft, "gsm8k_sft"),
    "gsm8k_tool_sft": Stage(None, "gsm8k_sft", calculator=True),
    "gsm8k_grpo": Stage(real_gsm8k.grpo, "gsm8k_grpo", ("gsm8k_sft",)),
    "gsm8k_tool_grpo": Stage(
        real_gsm8k.tool_grpo, "gsm8k_tool_grpo", ("gsm8k_sft",), calculator=True
    ),
}


def section(stage: str):
    """`on_real_weights` of a stage's notebook, and the names of its cells.

    Raises:
      ValueError: the notebook has not one cell with each of the two tags.
    """
    path = ROOT / "notebooks" / f"{NOTEBOOKS[stage]}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    names: dict = {"reward": RewardSet({correct: 1.0, format_reward: 0.1})}
    for tag in ("imports", "real"):
        tagged = [cell for cell in cells if tag in cell.metadata.get("tags", ())]
        if len(tagged) != 1:
            raise ValueError(f"{path.name} has {len(tagged)} cells tagged {tag!r}.")
        exec(tagged[0].source, names)
    return names


def lost_start(stage: str, preset: presets.Preset) -> str:
    """The stage before this one, or an earlier one, that was trained anew since.

    Returns:
      "" if the adapters of all of them are as they were, or none was noted.
    """
    while noted := peft_folder.started_from(maths.adapters_folder(stage, preset)):
        before = noted.split()[0]
        if before == stage:  # it was trained on under its own name
            return ""
        trained = maths.trained_here(before, preset)
        if not trained or maths.adapters_id(before, preset) != noted:
            return before
        stage = before
    return ""


def require_trained(preset: presets.Preset, stages: list[str]) -> None:
    """Refuses a stage that needs one which was neither trained here nor comes before.

    `start` would take the model as it comes, and the row would not tell. Nor would it
    tell of adapters whose own beginning was trained anew since they went on from it.

    Args:
      stages: names of STAGES, in the order in which they are to run.
    Raises:
      NotTrained: names both, and how they follow each other.
    """
    comes: set[str] = set()
    for name in stages:
        stage = STAGES[name]
        for needed in stage.after if stage.train else (stage.adapters,):
            if needed in comes:
                continue
            folder = maths.adapters_folder(needed, preset)
            if maths.trained_here(needed, preset):
                if lost := lost_start(needed, preset):
                    raise NotTrained(
                        f"{name} needs what {needed} ends with, and {folder} went on "
                        f"from other adapters of {lost} than are here now. Put those "
                        f"back, or train anew what comes after {lost}."
                    )
                continue
            raise NotTrained(
                f"{name} needs what {needed} ends with, and there is none in {folder}. "
                f"Train it first, with the same seed: --stages {needed} {name}."
            )
        comes.add(stage.adapters)
