"""The sizes of everything, one row for each kind of machine."""

import dataclasses
import os
from collections.abc import Sequence

import jax


@dataclasses.dataclass(frozen=True)
class Preset:
    """The size of everything, for one kind of machine.

    Attributes:
      name: laptop, v5e-1 (Colab) or v5e-8 (Kaggle).
      model: folder of the shipped checkpoints, or a Hugging Face repository.
      dtype: of the parameters, as a NumPy name.
      lora_rank: rank of the trained adapters; 0 trains all parameters.
      prompts: prompts per rollout step.
      group: answers per prompt.
      prompt_tokens: budget of a prompt, in tokens.
      completion_tokens: budget of an answer, in tokens.
      chunk: tokens of a chip whose logits exist at once.
      steps: of the lessons on real weights, and of GRPO on a laptop.
      minutes: what notebook 07 should take, compiling included.
    """

    name: str
    model: str
    dtype: str
    lora_rank: int
    prompts: int
    group: int
    prompt_tokens: int
    completion_tokens: int
    chunk: int
    steps: int
    minutes: int


# The laptop row is what the notebooks run and measure. The TPU rows are those of their
# sections on real weights: compiled for TPUs (`make tpu-check`), never run on one.
_QWEN = "Qwen/Qwen2.5-0.5B-Instruct"  # Apache-2.0, no token needed


PRESETS = {
    row.name: row
    for row in (
        Preset("laptop", "data/tiny", "float32", 0, 48, 8, 48, 64, 8192, 48, 3),
        Preset("v5e-1", _QWEN, "bfloat16", 32, 16, 8, 256, 256, 1024, 150, 45),
        Preset("v5e-8", _QWEN, "bfloat16", 64, 64, 8, 256, 512, 1024, 150, 45),
    )
}


def preset(name: str | None = None) -> Preset:
    """The preset called `name`, else COURSE_PRESET, else the one the devices fit.

    Raises:
      ValueError: no preset has this name.
    """
    name = name or os.environ.get("COURSE_PRESET") or _preset_for(jax.devices())
    if name not in PRESETS:
        raise ValueError(
            f"There is no preset {name!r}. Set COURSE_PRESET to one of "
            f"{', '.join(PRESETS)}, or unset it to have one chosen for you."
        )
    return PRESETS[name]


def _preset_for(devices: Sequence[jax.Device]) -> str:
    if devices[0].platform != "tpu":
        return "laptop"
    return "v5e-1" if len(devices) < 8 else "v5e-8"
