"""GRPO of a real model on problems of one step alone, from SFT on all levels.

Beside GRPO on all levels together it tells whether the algorithm or the mixture is what
does not lift. Notebook 07's rate, and two updates of each batch.
"""

import dataclasses

from helpers import runtime
from helpers.model import lora
from helpers.recipes import maths
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.training import Trainer, objectives, optimizers

TOKENS = 32  # one step takes about 22


def grpo(preset, seed: int) -> None:
    """GRPO on one-step problems from SFT's model, kept as "grpo_one_step"."""
    one = dataclasses.replace(preset, levels=(1,), completion_tokens=TOKENS)
    there = maths.recipe(one).start("sft")
    steps, rate = preset.rl.steps, preset.rl.rate
    trainer = Trainer(
        there.policy,
        objectives.policy_gradient(chunk=there.chunk),
        optimizers.adamw(rate, steps=steps, warmup=3, final=0.3),
        wrt=lora.Adapter,
        minibatches=2,
        accumulate=max(1, preset.pieces // 2),
        folder=runtime.run_folder(f"grpo_one_step_{preset.name}"),
        save_every=preset.rl.save_every,
    )
    reward = RewardSet({correct: 1.0, format_reward: 0.1})
    trainer.fit(there.rollouts(reward, seed), steps)
    there.keep("grpo_one_step")
