"""SFT of a real model outside of notebook 04, and SFT alone as the control of GRPO."""

import dataclasses

from helpers import runtime
from helpers.model import lora
from helpers.recipes import maths
from helpers.training import Trainer, objectives, optimizers


def imitate(there, stage: str, seed: int) -> None:
    """SFT on the recipe's training rows, as notebook 04 does it; kept as a stage."""
    preset = there.preset
    trainer = Trainer(
        there.policy,
        objectives.sft(chunk=there.chunk),
        optimizers.adamw(preset.sft.rate, steps=preset.sft.steps, warmup=5),
        accumulate=preset.sft_pieces,
        wrt=lora.Adapter,
        folder=runtime.run_folder(f"{stage}_{preset.name}"),
        save_every=preset.sft.save_every,
    )
    trainer.fit(there.demonstrations(seed), preset.sft.steps)
    there.keep(stage)


# What a step of GRPO costs, in steps of SFT: processor time on two cores, seed 0, when
# the rows in the table were trained. Both are a fifth to a third quicker since.
GRPO_STEP = 6.93


def control(preset, seed: int) -> None:
    """SFT for the processor time of SFT and GRPO together, kept as "sft_control".

    It tells what the time is worth that GRPO took, where there are demonstrations to
    spend it on.
    """
    steps = preset.sft.steps + round(preset.rl.steps * GRPO_STEP)
    print(f"{steps} steps of SFT cost what SFT and GRPO cost together")
    longer = dataclasses.replace(preset, sft=preset.sft._replace(steps=steps))
    imitate(maths.recipe(longer), "sft_control", seed)
