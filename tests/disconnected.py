"""The last section of notebook 07 on a small model, as a session that may be cut off.

    python tests/disconnected.py DRIVE

An imitation of Colab, whose Drive is a folder: what is trained and measured is kept
there by the notebook's own cell, which prints the change of the score.
"""

import dataclasses
import os
import pathlib
import sys
import types

import course_notebooks

from helpers import runtime
from helpers.recipes import maths, presets
from helpers.rewards import RewardSet, correct
from helpers.runtime import platform

TINY = runtime.ROOT / "data" / "tiny"
SMALL = dataclasses.replace(
    presets.PRESETS["laptop-real"],
    model=str(TINY / "sft"),
    lora_rank=4,
    prompts=4,
    group=4,
    completion_tokens=32,
    chunk=100,
    pieces=2,
    sft_pieces=2,
    rl=presets.Stage(12, 1e-3),
    levels=(1,),
)


def any_length(prompts, completions, **columns):
    """Something that varies, so that there is an advantage to learn from."""
    return [float(len(completion)) for completion in completions]


def imitate_colab(drive):
    """A new machine of Colab's: nothing is set, and Drive can be mounted."""
    module = types.ModuleType("google.colab")
    mount = lambda path: pathlib.Path(path).mkdir(exist_ok=True)  # noqa: E731
    module.drive = types.SimpleNamespace(mount=mount)
    sys.modules |= {"google": types.ModuleType("google"), "google.colab": module}
    os.environ.pop("COURSE_BUILD", None)
    os.environ["COLAB_RELEASE_TAG"] = "imitated"
    platform.DRIVE = pathlib.Path(drive)


def main(drive):
    """Runs the section's cells as the notebook has them."""
    imitate_colab(drive)
    maths.GENERATED = {"train": 100, "test": 24}
    notebook = course_notebooks.read("07")
    reward = RewardSet({correct: 1.0, any_length: 0.01})
    names = {"seed": 0, "preset": SMALL}
    for tag in ("imports", "real", "real-run"):
        (cell,) = course_notebooks.tagged(notebook, tag)
        names["reward"] = reward
        course_notebooks.run(cell.source, names)


if __name__ == "__main__":
    main(sys.argv[1])
