"""A real model on GSM8K itself: SFT on its training problems, then GRPO.

With a calculator in the loop and without. Sized for a GPU, where SFT makes one pass
over all problems and GRPO 24 steps of 32 questions. On two cores SFT sees a sixteenth
of the problems, in 50 steps (20 minutes of one of them), and GRPO makes 12 steps of 4
questions (an hour). COURSE_GSM8K may name the folder of GSM8K's files.
"""

import dataclasses

import jax

from helpers import runtime
from helpers.model import lora
from helpers.recipes import maths, presets
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.training import Trainer, objectives, optimizers
from scripts import real_sft

EPOCH = 200  # steps of 8,192 tokens; 7,466 solutions that fit have 1.62 million
SIZES = {
    "levels": (),  # GSM8K itself
    "lora_rank": 64,
    "prompts": 32,
    "packed": 16,
    "prompt_tokens": 256,
    "completion_tokens": 256,
    "chunk": 4096,
    "pieces": 8,
    "sft_pieces": None,
    "remat": "layer",
    "sft": presets.Stage(EPOCH, 5e-4),
    "rl": presets.Stage(24, 1e-4),
}
# A quarter of the tokens in a step, and a sixteenth of an epoch of them; an eighth of
# the answers in a step on rewards, and half of its steps.
TWO_CORES = SIZES | {
    "prompts": 4,
    "packed": 4,
    "chunk": 1024,
    "pieces": 4,
    "sft_pieces": 4,
    "remat": "none",
    "sft": presets.Stage(EPOCH // 4, 5e-4),
    "rl": presets.Stage(12, 1e-4),
}


def sized(preset: presets.Preset) -> presets.Preset:
    """The preset with the sizes of these stages, for what computes here."""
    on_cpu = jax.default_backend() == "cpu"
    return dataclasses.replace(preset, **(TWO_CORES if on_cpu else SIZES))


def bare(there: maths.Recipe) -> maths.Recipe:
    """The recipe with its questions as GSM8K has them, which is how it is measured."""
    rows = [
        row | {"question": row["question"].removesuffix(maths.ASK)}
        for row in there.train
    ]
    return dataclasses.replace(there, train=rows)


def sft(preset, seed: int) -> None:
    """SFT on GSM8K's own solutions, calls of the calculator in them: "gsm8k_sft"."""
    real_sft.imitate(bare(maths.recipe(sized(preset))), "gsm8k_sft", seed)


def grpo(preset, seed: int) -> None:
    """GRPO from there, which computes its own sums; kept as "gsm8k_grpo"."""
    _reward(preset, seed, maths.Recipe, "gsm8k_grpo")


def tool_grpo(preset, seed: int) -> None:
    """GRPO from there with the calculator in the loop; kept as "gsm8k_tool_grpo"."""
    _reward(preset, seed, maths.WithCalculator, "gsm8k_tool_grpo")


def _reward(preset, seed, kind, stage):
    preset = sized(preset)
    there = bare(maths.recipe(preset, kind).start("gsm8k_sft"))
    trainer = Trainer(
        there.policy,
        objectives.policy_gradient(chunk=there.chunk),
        optimizers.adamw(preset.rl.rate, steps=preset.rl.steps, warmup=5),
        accumulate=preset.pieces,
        wrt=lora.Adapter,
        folder=runtime.run_folder(f"{stage}_{preset.name}"),
        save_every=preset.rl.save_every,
    )
    reward = RewardSet({correct: 1.0, format_reward: 0.1})
    trainer.fit(there.rollouts(reward, seed), preset.rl.steps)
    there.keep(stage)
