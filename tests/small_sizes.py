"""The sizes of a lesson, made so small that it runs in seconds on two cores."""

import dataclasses

from helpers.course import stages
from helpers.recipes import presets


def small(preset, **changes):
    """A preset for the course's model after SFT, with two steps of each training."""
    sizes = dict(
        model=str(stages.stage_folder("sft")),
        lora_rank=4,
        prompts=4,
        group=2,
        completion_tokens=32,
        chunk=100,
        sft=presets.Stage(2, 1e-3),
        rl=presets.Stage(2, 1e-3),
    )
    return dataclasses.replace(preset, **sizes | changes)
