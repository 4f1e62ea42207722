"""The calculator's stages of `scripts.real`: lent to the model, and taken away again.

GSM8K's own `<<48/2=` is the call, and the calculator writes `24>>`
(`helpers.generation.calculator_use`). Learners meet it in notebook 10.
"""

import dataclasses

from helpers import runtime
from helpers.model import lora
from helpers.recipes import maths
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.training import Trainer, objectives, optimizers
from scripts import real_sft

ASKED = 1000  # training questions whose answers the student imitates, if right


def sft(preset, seed: int) -> None:
    """SFT that leaves the calculator's digits out of the loss, as "sft_with_tool"."""
    there = maths.recipe(preset, maths.WithCalculator)
    real_sft.imitate(there, "sft_with_tool", seed)


def grpo(preset, seed: int) -> None:
    """GRPO from SFT's model with the calculator in the loop, kept as "tool_grpo"."""
    there = maths.recipe(preset, maths.WithCalculator).start("sft")
    reward = RewardSet({correct: 1.0, format_reward: 0.1})
    trainer = Trainer(
        there.policy,
        objectives.policy_gradient(chunk=there.chunk),
        optimizers.adamw(preset.rl.rate, steps=preset.rl.steps, warmup=5),
        accumulate=preset.pieces,
        wrt=lora.Adapter,
        folder=runtime.run_folder(f"tool_grpo_{preset.name}"),
        save_every=preset.rl.save_every,
    )
    trainer.fit(there.rollouts(reward, seed), preset.rl.steps)
    there.keep("tool_grpo")


def student(preset, seed: int) -> None:
    """SFT's model learns the right answers of "tool_grpo", the calculator's digits too.

    It is asked without a calculator afterwards: what was lent is to be kept. Kept as
    "tool_student".
    """
    teacher = maths.recipe(preset, maths.WithCalculator).start("tool_grpo")
    asked = dataclasses.replace(teacher, test=teacher.train)
    answers = asked.evaluate(ASKED).answers
    right = [answer for answer in answers if answer["strict"]]
    print(f"{len(right)} of {len(answers)} answers with the calculator are right")
    rows = [{"question": a["question"], "answer": a["text"]} for a in right]
    there = maths.recipe(preset).start("sft")
    there = dataclasses.replace(there, train=rows)
    real_sft.imitate(there, "tool_student", seed)
