"""Adapters of three ranks beside all weights, into `data/results/lora_ranks.csv`.

    python -m scripts.lora_ranks    some three CPU-minutes; goes on where stopped

The base model takes three times the updates of notebook 04 on its demonstrations, the
same in the same order: with adapters beside its frozen weights, at ten times the rate,
or with all weights trained. Notebook 04 trains one rank itself, and shows the rest from
here.
"""

import os
import pathlib

import jax
from flax import nnx

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.model import lora, weights
from helpers.recipes import PRESETS
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "lora_ranks.csv"
SEEDS = (0, 1, 2)
RANKS = (2, 8, 32)
ARMS = {**{f"rank {rank}": rank for rank in RANKS}, "all weights": None}
LORA_RATE = 10  # times the rate of all weights


def run(rank: int | None, seed: int) -> dict:
    """Trains one model, and says what came of it.

    Args:
      rank: of the adapters; None trains all weights.

    Returns:
      How many numbers were trained, and the held-out score.
    """
    steps, rate = PRESETS["laptop"].sft
    folder = stages.stage_folder("base")
    tokenizer, model = chat.load_tokenizer(folder), weights.load(folder)
    if rank:
        model, rate = lora.add(model, rank, seed=seed), LORA_RATE * rate
    adam = optimizers.adamw(rate, steps=3 * steps, warmup=5)
    Trainer(model, objectives.sft(), adam, log=False).fit(
        _demonstrations(tokenizer, seed), 3 * steps
    )
    trained = jax.tree.leaves(nnx.state(model, lora.Adapter if rank else nnx.Param))
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    score = evaluate(
        lora.merge(model) if rank else model,
        tokenizer,
        test,
        max_tokens=64,
        buckets=(48,),
        samples=0,
    )
    return {
        "numbers": sum(array.size for array in trained),
        "greedy": score.greedy,
        "low": round(score.low, 4),
        "high": round(score.high, 4),
        "step_by_step": round(score.step_by_step, 4),
        "n": len(test),
        "load": round(os.getloadavg()[0], 1),
    }


def _demonstrations(tokenizer, seed):
    """Packed rows of notebook 04's 700 demonstrations, again and again."""
    drawn = 7 + 100 * seed
    problems = word_problems.generate(700, seed=drawn, levels=(3,))
    rows = word_problems.demonstrations(problems, answer_only=0.36, seed=drawn)
    columns = ([row[key] for row in rows] for key in ("question", "response"))
    examples = chat.examples_tokens(tokenizer, *columns)
    return prompt_batches.packed_rows(examples, batch=8, length=256, seed=seed)


def main():
    """Runs what the table has not yet, and writes each row as it comes."""
    done = tables.read(TABLE)
    had = {(row["arm"], int(row["seed"])) for row in done}
    for seed in SEEDS:
        for arm, rank in ARMS.items():
            if (arm, seed) not in had:
                done.append({"arm": arm, "seed": seed} | run(rank, seed))
                tables.write(TABLE, done)
                print(done[-1], flush=True)


if __name__ == "__main__":
    main()
