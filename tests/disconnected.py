"""The last section of notebook 07 on a small model, as a session that may be cut off.

    COURSE_BUILD=DRIVE python tests/disconnected.py

It prints the change of the score; what it trains and measures is below COURSE_BUILD.
"""

import dataclasses

import course_notebooks

from helpers import runtime
from helpers.recipes import presets
from helpers.rewards import RewardSet, correct

TINY = runtime.ROOT / "data" / "tiny"
SMALL = dataclasses.replace(
    presets.PRESETS["laptop-real"],
    model=str(TINY / "sft"),
    lora_rank=4,
    prompts=4,
    group=4,
    completion_tokens=32,
    chunk=100,
    rl=presets.Stage(12, 1e-3),
    levels=(1,),
)


def any_length(prompts, completions, **columns):
    """Something that varies, so that there is an advantage to learn from."""
    return [float(len(completion)) for completion in completions]


def main():
    """Runs the section as the notebook has it."""
    notebook = course_notebooks.read("07")
    names = {"seed": 0, "reward": RewardSet({correct: 1.0, any_length: 0.01})}
    for tag in ("imports", "real"):
        (cell,) = course_notebooks.tagged(notebook, tag)
        exec(cell.source, names)
    print("change:", names["on_real_weights"](SMALL))


if __name__ == "__main__":
    main()
