"""A real model in three number formats: what training, and sampling, lose by rounding.

    python -m scripts.real_dtypes [--preset laptop-real] [--curves]

SFT as in notebook 04's last section, then one batch of rollouts, with

- float32: everything in it;
- weights: the frozen weights in bfloat16, and float32 between them: what a recipe takes
  where the processor multiplies bfloat16;
- bfloat16: what flows between them, too, as on TPUs. Adapters are float32 in any case.

Into `data/results/real_dtypes.csv`: the loss of the first and the last five steps; how
far the trainer's log-probabilities of sampled tokens lie from those that the sampler
noted (mean and most, in nats); and the share of answers whose ratio of the two lies
outside of GSPO's clip before anything was learned. The Trainer does not take the
sampler's for the old ones (`helpers.training.update`), so there it is 0.

With --curves SFT alone, with a quarter of the rows in a step, and the loss of every
step into `data/results/real_dtypes_curves.csv`.
"""

import argparse
import dataclasses
import json
import os
import pathlib

import jax
import numpy as np
from flax import nnx

from helpers import runtime
from helpers.model import scoring
from helpers.recipes import maths, presets
from helpers.rewards.functions import correct
from scripts import real, real_sft, tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "real_dtypes.csv"
CURVES = TABLE.with_name("real_dtypes_curves.csv")
WORK = ROOT / "build" / "real_dtypes"
KINDS = {  # frozen weights, and what flows between them
    "float32": ("float32", "float32"),
    "weights": ("bfloat16", "float32"),
    "bfloat16": ("bfloat16", "bfloat16"),
}
CLIP = (3e-4, 4e-4)  # GSPO's, 2507.18071
FIELDS = (
    *("model", "kind", "seed", "steps", "loss_first", "loss_last"),
    *("gap_mean", "gap_max", "answers", "outside_clip", "seconds", "versions", "load"),
)


def held(preset, kind: str, *names):
    """The preset with a kind's formats, and a build folder that keeps to them."""
    weights, between = KINDS[kind]
    build = WORK.joinpath(*map(str, names), kind)
    build.mkdir(parents=True, exist_ok=True)
    (build / f"frozen_{preset.name}.txt").write_text(weights)
    os.environ["COURSE_BUILD"] = str(build)
    return dataclasses.replace(preset, dtype=between)


def losses(preset, seed: int) -> list[float]:
    """Those of SFT, step by step; the adapters are kept as "sft"."""
    real_sft.imitate(maths.recipe(preset), "sft", seed)
    lines = (_folder(preset) / "metrics.jsonl").read_text()
    return [json.loads(line)["loss"] for line in lines.splitlines()]


def _folder(preset):
    return runtime.run_folder(f"sft_{preset.name}")


def sampler_and_trainer(there, seed: int) -> dict:
    """How far apart they are on one batch of the policy's own answers."""
    batch = next(there.rollouts(correct, seed))
    mask_PGT = batch["loss_mask"] > 0
    policy = nnx.merge(*nnx.split(there.policy))
    ours_PGT, _ = nnx.jit(scoring.group_logprobs, static_argnums=2)(
        policy, batch, there.chunk
    )
    gap_PGT = (np.asarray(ours_PGT) - batch["logprobs"]) * mask_PGT
    said = mask_PGT.any(axis=-1)
    ratio = np.exp(gap_PGT.sum(axis=-1)[said] / mask_PGT.sum(axis=-1)[said])
    outside = (ratio < 1 - CLIP[0]) | (ratio > 1 + CLIP[1])
    return {
        "gap_mean": f"{np.abs(gap_PGT)[mask_PGT].mean():.1e}",
        "gap_max": f"{np.abs(gap_PGT).max():.1e}",
        "answers": int(said.sum()),
        "outside_clip": round(float(outside.mean()), 3),
    }


def measured(preset, kind: str, seed: int) -> dict:
    """One row of the table."""
    preset = held(preset, kind, seed)
    curve = losses(preset, seed)
    row = {"model": preset.model.split("/")[-1], "kind": kind, "seed": seed}
    row |= {"steps": len(curve)}
    row |= {"loss_first": round(float(np.mean(curve[:5])), 4)}
    row |= {"loss_last": round(float(np.mean(curve[-5:])), 4)}
    row |= sampler_and_trainer(maths.recipe(preset).start("sft"), seed)
    row |= {"seconds": round(real.trained_seconds(_folder(preset)))}
    return row | {
        "versions": real.measured_with(),
        "load": round(os.getloadavg()[0], 1),
    }


def curves(preset, seed: int) -> list[dict]:
    """The loss of every step of a smaller SFT, in each of the formats."""
    rows = max(1, preset.rows // 4)
    fewer = dataclasses.replace(preset, packed=rows, sft_pieces=None)
    found = {}
    for kind in KINDS:
        found[kind] = losses(held(fewer, kind, "curves", seed), seed)
        jax.clear_caches()
    return [
        {"model": preset.model.split("/")[-1], "seed": seed, "rows": rows, "step": step}
        | {kind: round(loss, 5) for kind, loss in zip(KINDS, each, strict=True)}
        for step, each in enumerate(zip(*found.values(), strict=True), 1)
    ]


def main():
    """Measures the kinds one after the other; what was trained is not trained again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="laptop-real")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--curves", action="store_true")
    given = parser.parse_args()
    if given.curves:
        tables.write(CURVES, curves(presets.preset(given.preset), given.seed))
        return
    for kind in KINDS:
        row = measured(presets.preset(given.preset), kind, given.seed)
        print(row, flush=True)
        key = {name: str(row[name]) for name in ("model", "kind", "seed")}
        others = [old for old in tables.read(TABLE) if key.items() - old.items()]
        tables.write(TABLE, [*others, row], FIELDS)
        jax.clear_caches()


if __name__ == "__main__":
    main()
