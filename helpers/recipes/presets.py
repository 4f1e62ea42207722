"""The sizes of everything: one row of presets.csv for each kind of machine and task."""

import csv
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax

from helpers.runtime.platform import where


class Stage(NamedTuple):
    """How long a stage trains: optimizer steps, and AdamW's highest learning rate."""

    steps: int
    rate: float

    @property
    def save_every(self) -> int:
        """Steps between checkpoints: a tenth, the most that a disconnect costs."""
        return max(1, self.steps // 10)

    @property
    def look_every(self) -> int:
        """Steps between two evaluations on held-out questions: a fifth."""
        return max(1, self.steps // 5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """The size of everything, for one kind of machine and one task.

    Attributes:
      name: laptop, laptop-real (Colab and Kaggle without a TPU), v5e-1 (Colab) or
        v5e-8 (Kaggle); the last two also followed by another model's short name, such
        as v5e-1-gemma3-1b, or v5e-1-gemma3-4b for photos. Notebook 15 has t4, too, for
        GPUs; a T4 has no bfloat16.
      model: folder of the shipped checkpoints, or a Hugging Face repository.
      dtype: of the parameters, as a NumPy name.
      lora_rank: rank of the trained adapters; 0 trains all parameters.
      prompts: prompts per rollout step.
      packed: rows in a batch of SFT; 0: as many as prompts.
      prompt_tokens: budget of a prompt, in tokens.
      completion_tokens: budget of an answer, in tokens; of all its turns and the tool's
        results between them.
      chunk: tokens of a chip whose logits exist at once.
      sft, rl: how long, and how fast, SFT and GRPO train.
      minutes: what the GRPO notebook should take, compiling included.
      pieces: in how many pieces an update on groups, or any update with pictures, is
        computed, to save memory.
      sft_pieces: those of an update of SFT on texts; None: the trainer's default.
      remat: what the backward pass computes again, one of `model.ops.REMAT`. More
        pieces leave room to keep more.
      stored: how the frozen base of a food lesson is stored, one of `quantized.KINDS`;
        "": in `dtype`.
      levels: of the generated problems that the model is trained on, in steps; none:
        GSM8K itself.
      group: answers per prompt.
    """

    name: str
    model: str
    dtype: str
    lora_rank: int
    prompts: int
    packed: int
    prompt_tokens: int
    completion_tokens: int
    chunk: int
    sft: Stage
    rl: Stage
    minutes: int
    pieces: int
    sft_pieces: int | None
    remat: str
    stored: str
    levels: tuple[int, ...]
    group: int = 8

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


SHIPPED = "data/tiny"
MODELS = {  # Gemma 3 is gated (its licence, and a token); the others are Apache-2.0
    "tiny": SHIPPED,
    "SmolLM2": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "Qwen2.5": "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen3": "Qwen/Qwen3-1.7B",
    "Gemma3-1B": "google/gemma-3-1b-it",
    "Gemma3-4B": "google/gemma-3-4b-it",
    "Gemma4": "google/gemma-4-E2B-it",
}
# The laptop's rows are what the notebooks run and measure, laptop-real is run by
# scripts/real.py, and the TPU rows are compiled for TPUs (`make tpu-check`).
# - v5e-1 samples 512 answers at once, which takes 2.3 times as long as 128.
# - Pieces of laptop-real have some 500 tokens and keep all the backward pass needs.
#   SFT takes 69% of the CPU time of two pieces that compute layers again.
# - A photo takes 282 of the prompt's tokens, the description of the tool about 150.
# - Int8 matrices are decoded for each piece, and again for each matmul that is not
#   kept, so v5e-1-gemma3-4b has two pieces that keep most of a layer.


def _rows(table: str) -> list[dict[str, str]]:
    """The rows of a CSV file beside this one, as text."""
    path = pathlib.Path(__file__).with_name(f"{table}.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _stage(cell: str) -> Stage:
    steps, rate = cell.split("×")
    return Stage(int(steps), float(rate))


_CONVERT: dict[str, Callable] = {  # cells of the other columns are whole numbers
    **dict.fromkeys(("name", "dtype", "remat", "stored"), str),
    **dict.fromkeys(("sft", "rl"), _stage),
    "model": MODELS.get,
    "sft_pieces": lambda cell: int(cell) if cell else None,
    "levels": lambda cell: tuple(map(int, cell.split(","))) if cell else (),
}


def _presets(task: str) -> dict[str, Preset]:
    """The rows of the table for one task, by name."""
    rows = [row for row in _rows("presets") if row.pop("task") == task]
    made = [{n: _CONVERT.get(n, int)(x) for n, x in row.items()} for row in rows]
    return {row["name"]: Preset(**row) for row in made}


PRESETS = _presets("maths")  # notebooks 03 to 08, and 11
FOOD = _presets("food")  # pictures and the nutrition tool: notebooks 09 and 10
CUSTOM = _presets("custom")  # notebook 15: a short run on rows of your own
LARGER = tuple(n for n in PRESETS if n.count("-") == 3 and n not in FOOD)
# A machine without a row of its own takes another's: no model that sees is small enough
# for two cores, and notebook 15 trains on a base in bfloat16.
FOOD["laptop-real"], CUSTOM["laptop"] = FOOD["laptop"], CUSTOM["laptop-real"]
FOOD |= {name: FOOD[name[: len("v5e-1")]] for name in LARGER}
CUSTOM["v5e-1-gemma3-4b"] = CUSTOM["v5e-1"]


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


def custom() -> Preset:
    """The row of CUSTOM for this machine; on a GPU, that of a T4."""
    name = preset().name
    on_gpu = name.startswith("laptop") and jax.devices()[0].platform == "gpu"
    return CUSTOM["t4" if on_gpu else name]


def _preset_for(devices: Sequence[jax.Device]) -> str:
    if devices[0].platform != "tpu":  # free CPUs and GPUs are there for a real model
        return "laptop" if where() == "laptop" else "laptop-real"
    return "v5e-1" if len(devices) < 8 else "v5e-8"
