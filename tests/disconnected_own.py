"""Notebook 15's training on a small model, as a session that may be cut off.

As `disconnected`: the notebook's own cells from the model to the end of GRPO, but for
the one that pulls the plug, on an imitation of Colab.
"""

import dataclasses

import course_notebooks
from disconnected import TINY, imitate_colab

from helpers import runtime
from helpers.recipes import presets

SIZE = dataclasses.replace(
    presets.CUSTOM["laptop-real"],
    model=str(TINY / "sft"),
    lora_rank=4,
    prompts=4,
    group=4,
    chunk=100,
    sft=presets.Stage(20, 1e-3),
    rl=presets.Stage(9, 1e-3),
)
# How the cells begin: model, rows, reader, two rewards, baseline, SFT, then what GRPO
# needs and its call, which also begins after a disconnect.
CELLS = (
    *('MODEL = os.environ.get("COURSE_MODEL")', "MINE = None", "limits = {"),
    *("def right(prompts", "def shows_its_sum", "BUDGET = {", "def train_by_rows"),
    *("class Disconnect", "def train_by_reward"),
    "policy = lora.load(lora.remove(policy)",
)


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
        course_notebooks.run(source, names)
        if start == "limits = {":  # how far a large model comes is not asserted of this
            names |= {"CUSTOM": "mine", "held_out": names["held_out"][:20]}
