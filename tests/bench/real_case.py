"""What both libraries train in `real_peers.py`: one model, the same rows, one recipe.

Standard library only: the same file is imported in each library's own environment. The
rows, prompts and learning rates are written once, by our side, and both read them.
"""

import dataclasses
import json
import os
import pathlib
import platform
import resource
import sys
import time
from importlib import metadata


@dataclasses.dataclass(frozen=True)
class RealCase:
    """A recipe: SFT, then GRPO from one SFT model. Sizes and defaults of laptop-real.

    Attributes:
      model: of the hub, or a folder, with LoRA on all seven matrices.
      numbers: "float32"; or "bfloat16" for products of bfloat16 with float32 adapters:
        ours holds the frozen weights so, and TRL trains under autocast (`bf16=True`).
      rank: of the adapters; their output counts twice (alpha is 2 · rank).
      levels: steps of the generated problems, written as digits.
      sft_rows: worked solutions in a step, one to a row; the loss is the mean over all
        their answer tokens.
      prompts, group, answer: questions in a GRPO step, answers to each, tokens each.
      sft_rate, grpo_rate: AdamW's highest; it climbs for `…_warmup` steps and falls
        along a cosine to a twentieth. Betas .9 and .95, no decay, gradients of norm 1.
      held_out: problems that a trained model is graded on, greedily.
      remat: what our backward pass computes again; nothing, as in laptop-real and TRL.
      sft_pieces, grpo_pieces: TRL's micro-batches of a step.
      own_sft_pieces, own_grpo_pieces: ours, those of laptop-real.
      cores: that either library may use. Beside other work take one: PyTorch's threads
        wait for each other busily.
    """

    model: str = "HuggingFaceTB/SmolLM2-135M-Instruct"
    numbers: str = "float32"
    rank: int = 16
    levels: str = "1"
    sft_rows: int = 16
    sft_steps: int = 15
    sft_rate: float = 1e-3
    sft_warmup: int = 4
    prompts: int = 16
    group: int = 8
    answer: int = 32
    grpo_steps: int = 28
    grpo_rate: float = 2e-4
    grpo_warmup: int = 5
    held_out: int = 200
    remat: str = "none"
    sft_pieces: int = 4
    grpo_pieces: int = 32
    own_sft_pieces: int = 4
    own_grpo_pieces: int = 16
    cores: int = 2


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a comparison keeps its files, so that it can be killed and goes on."""

    work: pathlib.Path

    def case(self) -> RealCase:
        """The recipe that everything here was made with."""
        return RealCase(**read(self.work / "case.json"))

    def rows(self, seed) -> pathlib.Path:
        """What both libraries read: see `real_ours.prepare`."""
        return self.work / f"rows-{seed}.json"

    def fresh(self, seed) -> pathlib.Path:
        """Adapters that were not trained, a PEFT folder: SFT begins with them."""
        return self.work / f"fresh-{seed}"

    def adapters(self, library, stage, seed) -> pathlib.Path:
        """Adapters that a run ended with, a PEFT folder."""
        return self.work / f"{library}-{stage}-{seed}"

    def start(self) -> pathlib.Path:
        """The one SFT model that all of GRPO begins with, whatever its seed."""
        return self.adapters("ours", "sft", 0)

    def result(self, library, stage, seed) -> pathlib.Path:
        """Figures of a finished run."""
        return self.work / f"{library}-{stage}-{seed}.json"


def read(path):
    """A JSON file."""
    return json.loads(pathlib.Path(path).read_text("utf-8"))


def write(path, content) -> None:
    """A JSON file, to the side first: there it is whole, or not at all."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(content), "utf-8")
    aside.rename(path)


def asked(stages):
    """(Place, stage, seed, what else) of the command line WORK STAGE SEED …"""
    work, stage, seed, *more = sys.argv[1:]
    if stage not in stages:
        raise SystemExit(f"No stage {stage!r} here: {', '.join(stages)}.")
    return Place(pathlib.Path(work)), stage, int(seed), more


class Stopwatch:
    """Wall seconds of a whole training, its first step and all compiling included."""

    def __enter__(self):
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self._begin


def report(path, rows, seconds, packages) -> None:
    """Writes the figures of a run, with how it was made.

    Args:
      path: from `Place.result`.
      rows: one dict per step: loss, grad_norm, learning_rate, seconds, cpu_seconds; of
        GRPO also right, the share of right answers.
      seconds: of all of the training.
      packages: whose versions to note.
    """
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    versions.append(f"python {platform.python_version()}")
    pinned = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if pinned else os.cpu_count()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "rows": rows,
        "wall_s": seconds,
        "peak_mb": peak,
        "cores": cores,
        "versions": " ".join(versions),
        "load": round(os.getloadavg()[0], 2),
    }
    write(path, figures)
