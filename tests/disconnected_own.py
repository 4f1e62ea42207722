"""Notebook 15's training on a small model, as a session that may be cut off.

The notebook's own cells from the model to the end of GRPO, but for the one that pulls
the plug, on an imitation of Colab, whose Drive is a folder.
"""

import os
import pathlib
import sys
import types

import course_notebooks
from small_sizes import small

from helpers import runtime
from helpers.recipes import presets
from helpers.runtime import platform

STAGES = dict(sft=presets.Stage(20, 1e-3), rl=presets.Stage(9, 1e-3))
BATCH = dict(group=4, pieces=4, prompt_tokens=72)
SIZE = small(presets.CUSTOM["laptop-real"], **BATCH, **STAGES)
# How the cells begin: settings, model, rows, budget, rewards, baseline, SFT, then what
# GRPO needs and its call, which also begins after a disconnect.
CELLS = (
    *("inbox = storage", "mine = sorted(", "folder = hub.fetch", "columns, source = "),
    *("def rounded", "asked = ", "def follows", "def agrees", "WEIGHTS = "),
    *("def measure", "# New adapters", "def train_by_rows", 'if "sft" in METHOD'),
    *("class Disconnect", "def train_by_reward"),
    'if "grpo" in METHOD:\n    policy = begin()\n    table = ',
)
SAVED = 2  # steps of GRPO between its checkpoints, a quarter of all
SETTINGS = {"ROWS": "problems", "METHOD": "sft+grpo"}


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
    """Runs the cells as the notebook has them, on 20 held-out rows of 100."""
    imitate_colab(drive)
    notebook = course_notebooks.read("15")
    (imports,) = course_notebooks.tagged(notebook, "imports")
    names = {"size": SIZE, "seed": 0, "storage": runtime.use_persistent_storage()}
    course_notebooks.run(f"import pathlib, sys\n{imports.source}", names)
    sources = [cell.source for cell in course_notebooks.code_cells(notebook)]
    for start in CELLS:
        (source,) = (text for text in sources if text.startswith(start))
        if start == "mine = sorted(":
            source = course_notebooks.with_settings(source, **SETTINGS)
        course_notebooks.run(source, names)
        if start == "asked = ":
            names["held_out"] = names["held_out"][:20]
