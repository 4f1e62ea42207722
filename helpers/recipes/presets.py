"""The sizes of everything, one row for each kind of machine."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from helpers.runtime.platform import where


class Stage(NamedTuple):
    """How long a stage trains: optimizer steps, and AdamW's highest learning rate."""

    steps: int
    rate: float

    @property
    def save_every(self) -> int:
        """Steps between checkpoints: the most that a disconnect costs, a tenth."""
        return max(1, self.steps // 10)

    @property
    def look_every(self) -> int:
        """Steps between two looks at held-out questions, a fifth."""
        return max(1, self.steps // 5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """The size of everything, for one kind of machine and one task.

    Attributes:
      name: laptop, laptop-real (Colab and Kaggle without a TPU), v5e-1 (Colab) or
        v5e-8 (Kaggle); the last two also with another model's short name behind, such
        as v5e-1-gemma3-1b, or v5e-1-gemma3-4b for photos.
      model: folder of the shipped checkpoints, or a Hugging Face repository.
      dtype: of the parameters, as a NumPy name.
      lora_rank: rank of the trained adapters; 0 trains all parameters.
      prompts: prompts per rollout step.
      packed: rows in a batch of SFT, where these are not as many as prompts.
      group: answers per prompt.
      prompt_tokens: budget of a prompt, in tokens.
      completion_tokens: budget of an answer, in tokens; of all its turns and the tool's
        results between them.
      chunk: tokens of a chip whose logits exist at once.
      sft, rl: how long, and how fast, SFT and GRPO train.
      minutes: what the GRPO notebook should take, compiling included.
      pieces: in which an update on groups, or any with pictures, is computed, to save
        memory.
      sft_pieces: those of an update of SFT on texts; None: as the trainer takes them.
      remat: what its backward pass computes again, one of `model.ops.REMAT`. More
        pieces leave room to keep more.
      stored: how the frozen base of a food lesson is, one of `quantized.KINDS`; "": in
        `dtype`.
      levels: of the generated problems that the model is trained on, in steps; none:
        GSM8K itself.
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
    sft: Stage
    rl: Stage
    minutes: int
    packed: int = 0
    pieces: int = 1
    sft_pieces: int | None = None
    remat: str = "layer"
    stored: str = ""
    levels: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Packed rows in a batch of SFT."""
        return self.packed or self.prompts

    @property
    def disconnect(self) -> str:
        """What a disconnect costs, as a sentence."""
        return (
            f"A disconnect costs {self.sft.save_every} of {self.sft.steps} steps of "
            f"SFT at most, {self.rl.save_every} of {self.rl.steps} of training on "
            "answers: run the cell again."
        )

    @property
    def real(self) -> bool:
        """Whether its model is someone else's, and not the course's own small one."""
        return self.model != SHIPPED


# The laptop's rows are what the notebooks run and measure, the others those of their
# sections on real weights: laptop-real is run by scripts/real.py, the TPU rows are
# compiled for TPUs (`make tpu-check`) and were never run on one.
SHIPPED = "data/tiny"
_LAPTOP: dict[str, Any] = {
    "name": "laptop",
    "model": SHIPPED,
    "dtype": "float32",
    "lora_rank": 0,
    "group": 8,
    "chunk": 8192,
    "minutes": 3,
}
_TPU: dict[str, Any] = {
    "dtype": "bfloat16",
    "group": 8,
    "chunk": 1024,
    "remat": "attention",
    "sft": Stage(150, 1e-4),
    "rl": Stage(150, 5e-5),
    "minutes": 45,
}
_QWEN = _TPU | {"model": "Qwen/Qwen2.5-0.5B-Instruct"}  # Apache-2.0, no token needed
_PHOTOS = _TPU | {
    "remat": "layer",
    "model": "google/gemma-4-E2B-it",  # Apache-2.0, no token needed
    "lora_rank": 32,
    "prompt_tokens": 448,  # 282 of a photo, about 150 that tell of the tool
    "completion_tokens": 128,
}
_GEMMA3 = _PHOTOS | {
    "model": "google/gemma-3-4b-it",  # gated: its licence, and a token
    "remat": "attention",
    "prompt_tokens": 384,
}

PRESETS = {  # maths: notebooks 03 to 08, and 11
    "laptop": Preset(
        prompts=32,
        prompt_tokens=48,
        completion_tokens=64,
        sft=Stage(12, 3e-4),
        rl=Stage(48, 8e-4),
        **_LAPTOP,
    ),
    "laptop-real": Preset(
        name="laptop-real",
        model="HuggingFaceTB/SmolLM2-135M-Instruct",  # Apache-2.0, 135M parameters
        dtype="float32",
        lora_rank=16,
        prompts=16,
        group=8,
        prompt_tokens=72,
        completion_tokens=64,
        chunk=1024,
        # Pieces of some 500 tokens, of which the backward pass has all it needs. SFT
        # takes 69% of the processor time of two pieces that compute layers again, and
        # GRPO's update 79% of one that does, in 2.8 GB in place of 3.5.
        pieces=16,
        sft_pieces=4,
        remat="none",
        sft=Stage(40, 1e-3),
        rl=Stage(28, 1e-4),
        minutes=45,
        levels=(1, 2, 3),
    ),
    "v5e-1": Preset(
        name="v5e-1",
        lora_rank=32,
        prompts=64,  # 512 answers take 2.3 times as long to sample as 128
        packed=16,
        prompt_tokens=256,
        completion_tokens=256,
        pieces=8,
        **_QWEN,
    ),
    "v5e-8": Preset(
        name="v5e-8",
        lora_rank=64,
        prompts=64,
        prompt_tokens=256,
        completion_tokens=512,
        pieces=2,
        **_QWEN,
    ),
}
LARGER = {  # asked for by name, such as v5e-1-gemma3-1b; prompts that fit, and pieces
    "v5e-1-gemma3-1b": ("google/gemma-3-1b-it", 16, 2),
    "v5e-8-gemma3-1b": ("google/gemma-3-1b-it", 64, 2),
    "v5e-1-qwen3-1.7b": ("Qwen/Qwen3-1.7B", 12, 4),
    "v5e-8-qwen3-1.7b": ("Qwen/Qwen3-1.7B", 64, 4),
}
FOOD = {  # pictures and the nutrition tool: notebooks 09 and 10
    "laptop": Preset(
        prompts=32,
        prompt_tokens=40,
        completion_tokens=88,
        sft=Stage(24, 2e-2),
        rl=Stage(70, 5e-4),
        **_LAPTOP,
    ),
    "v5e-1": Preset(name="v5e-1", prompts=8, pieces=4, **_PHOTOS),
    "v5e-8": Preset(name="v5e-8", prompts=16, **_PHOTOS),
    # Its int8 matrices are decoded for each piece, and again for each product that is
    # not kept: two pieces that keep most of a layer.
    "v5e-1-gemma3-4b": Preset(
        name="v5e-1-gemma3-4b", prompts=8, pieces=2, stored="int8", **_GEMMA3
    ),
    "v5e-8-gemma3-4b": Preset(name="v5e-8-gemma3-4b", prompts=16, **_GEMMA3),
}


class _Own(dict[str, Preset]):
    """Presets of notebook 15, by name; of one that it cannot run it says why."""

    def __missing__(self, name):
        raise ValueError(
            f"Notebook 15 has no sizes for the preset {name!r}. It trains on a base in "
            "bfloat16; of Gemma 3 4B that leaves too little of one chip. Set "
            f"COURSE_PRESET to one of {', '.join(self)}."
        )


OWN = _Own()  # notebook 15: a short run on rows of one's own
OWN["laptop"] = OWN["laptop-real"] = dataclasses.replace(
    PRESETS["laptop-real"],
    prompts=8,
    completion_tokens=32,
    sft=Stage(20, 1e-3),
    rl=Stage(12, 2.5e-4),
    pieces=4,
    sft_pieces=2,
    minutes=10,
)
_SHORT: dict[str, Any] = {"sft": Stage(40, 1e-4), "rl": Stage(60, 5e-5)}
for _name, _row in FOOD.items():  # the food lessons' models, without photos
    if _row.real and not _row.stored:
        OWN[_name] = dataclasses.replace(_row, **_SHORT)
FOOD["laptop-real"] = FOOD["laptop"]  # no model that sees is small enough for two cores
for _name, (_model, _prompts, _pieces) in LARGER.items():  # else as their machine's
    _machine = _name[: len("v5e-1")]
    PRESETS[_name] = dataclasses.replace(
        PRESETS[_machine],
        name=_name,
        model=_model,
        packed=0,
        prompts=_prompts,
        pieces=_pieces,
    )
    FOOD[_name] = FOOD[_machine]
    OWN[_name] = dataclasses.replace(PRESETS[_name], **_SHORT)
for _name in FOOD:  # of the two with Gemma 3 the maths lessons are their machine's
    if _name not in PRESETS:
        _machine = _name[: len("v5e-1")]
        PRESETS[_name] = dataclasses.replace(PRESETS[_machine], name=_name)


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
    if devices[0].platform != "tpu":  # free CPUs and GPUs are there for a real model
        return "laptop" if where() == "laptop" else "laptop-real"
    return "v5e-1" if len(devices) < 8 else "v5e-8"
